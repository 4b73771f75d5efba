// Whether text has Unicode's normal form NFC already.
#pragma once

#include <string_view>

namespace runner {

// The first character that isn't, or may not be, as NFC has it; "": there is none.
//
// Unicode's quick check (Annex 15): what it leaves open counts as other text. The text has to be UTF-8.
std::string_view not_composed(std::string_view text);

}  // namespace runner

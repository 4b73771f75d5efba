// How deeply JSON is nested: to copy or compare values, the library calls itself for each level.
#pragma once

#include <string_view>

namespace runner {

// Whether a text nests lists and objects deeper than any file that the runner reads.
bool is_nested_too_deeply(std::string_view json);

}  // namespace runner

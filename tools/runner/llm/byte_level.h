// Bytes as the printable characters that byte-level tokenizers have in their vocabularies.
#pragma once

#include <string>
#include <string_view>

namespace runner {

std::string to_byte_level(std::string_view bytes);

// The bytes of a token; one with other characters than those is its own bytes.
std::string from_byte_level(std::string_view token);

}  // namespace runner

// Text in UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace runner {

// Bytes of the character that begins at a position; 0: none begins there, or it is cut off.
size_t character_size(std::string_view text, size_t position);

bool is_utf8(std::string_view text);

// Without a character at the end of which bytes are missing.
std::string_view without_cut_end(std::string_view text);

// With a replacement character for each byte that belongs to no character.
std::string repaired(std::string_view text);

uint32_t code_point(std::string_view character);
std::string character(uint32_t code_point);

}  // namespace runner

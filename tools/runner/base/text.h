// Text in UTF-8, and numbers as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace runner {

// Bytes of the character at a position; 0: no character begins there, or it is incomplete.
size_t character_size(std::string_view text, size_t position);

bool is_utf8(std::string_view text);

// Without an incomplete character at the end.
std::string_view without_cut_end(std::string_view text);

// With a replacement character for each incomplete character, and for each invalid byte.
std::string repaired(std::string_view text);

uint32_t code_point(std::string_view character);
std::string character(uint32_t code_point);

// Unicode's White_Space.
bool is_space(uint32_t code_point);

// Bytes as the printable characters that byte-level tokenizers have in their vocabularies.
std::string to_byte_level(std::string_view bytes);

// The bytes of a token; a token with other characters is its own bytes.
std::string from_byte_level(std::string_view token);

// A number with N digits after the point.
std::string with_digits(double number, int digits);

// A number with at most eight digits: "1.0803342e-07".
std::string short_text(double number);

}  // namespace runner

#include "tools/runner/base/text.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace runner {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

uint8_t byte_at(std::string_view text, size_t position) {
  return static_cast<uint8_t>(text[position]);
}

// Bytes of a character by its first byte; 0: not a first byte.
size_t promised_size(uint8_t first) {
  return first < 0x80               ? 1
      : first >= 0xC2 && first < 0xE0 ? 2
      : first >= 0xE0 && first < 0xF0 ? 3
      : first >= 0xF0 && first < 0xF5 ? 4
                                      : 0;
}

// The second byte's range excludes overlong forms, surrogates and values above the last character.
bool fits_second(uint8_t first, uint8_t second) {
  const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  return second >= low && second <= high;
}

bool fits(std::string_view text, size_t position, size_t size) {
  for (size_t i = 1; i < size; ++i) {
    const uint8_t byte = byte_at(text, position + i);
    if (i == 1 ? !fits_second(byte_at(text, position), byte) : (byte & 0xC0) != 0x80) {
      return false;
    }
  }
  return true;
}

// Bytes of an incomplete character, or 1 if none begins.
size_t cut_size(std::string_view text, size_t position) {
  size_t size = 1;
  const size_t most = std::min(promised_size(byte_at(text, position)), text.size() - position);
  while (size < most && fits(text, position, size + 1)) {
    ++size;
  }
  return size;
}

constexpr bool is_printable(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// Code point of each byte: the byte itself if it is printable, else one from 256 on.
constexpr std::array<uint32_t, 256> make_points() {
  std::array<uint32_t, 256> points{};
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    points[byte] = is_printable(byte) ? byte : next++;
  }
  return points;
}

constexpr std::array<uint32_t, 256> kPoints = make_points();

constexpr size_t kPointsEnd = 256 + 68;  // 68 bytes are not printable.

// Byte of each of those code points; -1: none.
constexpr std::array<int, kPointsEnd> make_bytes() {
  std::array<int, kPointsEnd> bytes{};
  for (int& byte : bytes) {
    byte = -1;
  }
  for (int byte = 0; byte < 256; ++byte) {
    bytes[kPoints[static_cast<size_t>(byte)]] = byte;
  }
  return bytes;
}

constexpr std::array<int, kPointsEnd> kBytes = make_bytes();

int byte_of(uint32_t point) {
  return point < kPointsEnd ? kBytes[point] : -1;
}

}  // namespace

size_t character_size(std::string_view text, size_t position) {
  const size_t size = promised_size(byte_at(text, position));
  return size <= text.size() - position && fits(text, position, size) ? size : 0;
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t size = character_size(text, i);
    if (size == 0) {
      return false;
    }
    i += size;
  }
  return true;
}

std::string_view without_cut_end(std::string_view text) {
  for (size_t back = 1; back < 4 && back <= text.size(); ++back) {
    const size_t start = text.size() - back;
    const size_t size = promised_size(byte_at(text, start));
    if (size > back && fits(text, start, back)) {
      return text.substr(0, start);
    }
    if (size > 0) {
      break;
    }
  }
  return text;
}

std::string repaired(std::string_view text) {
  std::string whole;
  for (size_t i = 0; i < text.size();) {
    const size_t size = character_size(text, i);
    whole += size > 0 ? text.substr(i, size) : kReplacement;
    i += size > 0 ? size : cut_size(text, i);
  }
  return whole;
}

uint32_t code_point(std::string_view character) {
  const uint8_t first = byte_at(character, 0);
  const size_t size = character.size();
  uint32_t point = size == 1 ? first : first & (0xFF >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    point = point << 6 | (byte_at(character, i) & 0x3F);
  }
  return point;
}

bool is_space(uint32_t point) {
  return point == ' ' || (point >= '\t' && point <= '\r') || point == 0x85 || point == 0xA0 ||
      point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
      point == 0x202F || point == 0x205F || point == 0x3000;
}

std::string character(uint32_t point) {
  const auto tail = [point](int shift) {
    return static_cast<char>(0x80 | (point >> shift & 0x3F));
  };
  if (point < 0x80) {
    return {static_cast<char>(point)};
  }
  if (point < 0x800) {
    return {static_cast<char>(0xC0 | point >> 6), tail(0)};
  }
  if (point < 0x10000) {
    return {static_cast<char>(0xE0 | point >> 12), tail(6), tail(0)};
  }
  return {static_cast<char>(0xF0 | point >> 18), tail(12), tail(6), tail(0)};
}

std::string to_byte_level(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    text += character(kPoints[static_cast<uint8_t>(byte)]);
  }
  return text;
}

std::string from_byte_level(std::string_view token) {
  std::string bytes;
  for (size_t i = 0; i < token.size();) {
    const size_t size = character_size(token, i);
    const int byte = size == 0 ? -1 : byte_of(code_point(token.substr(i, size)));
    if (byte < 0) {
      return std::string(token);
    }
    bytes += static_cast<char>(byte);
    i += size;
  }
  return bytes;
}

std::string with_digits(double number, int digits) {
  char text[64];
  snprintf(text, sizeof(text), "%.*f", digits, number);
  return text;
}

std::string short_text(double number) {
  char text[64];
  snprintf(text, sizeof(text), "%.8g", number);
  return text;
}

}  // namespace runner

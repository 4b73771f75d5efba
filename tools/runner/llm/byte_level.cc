#include "tools/runner/llm/byte_level.h"

#include <array>
#include <cstdint>

#include "tools/runner/llm/utf8.h"

namespace runner {
namespace {

constexpr bool is_printable(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// Code point of each byte: its own where that is printable, else one of those from 256 on.
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

// Byte of each of those code points; -1: it stands for none.
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

}  // namespace runner

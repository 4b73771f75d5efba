#include "tools/runner/base/crc32.h"

#include <algorithm>
#include <array>

#include "tools/runner/base/mapped_file.h"

namespace runner {
namespace {

constexpr uint32_t kPolynomial = 0xEDB88320;
constexpr int kLanes = 8;
constexpr uint64_t kPiece = 16 << 20;

using Tables = std::array<std::array<uint32_t, 256>, kLanes>;

// tables[n][b]: the remainder of byte b, followed by n zero bytes.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1) ^ ((remainder & 1) ? kPolynomial : 0);
    }
    tables[0][byte] = remainder;
  }
  for (int lane = 1; lane < kLanes; ++lane) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[lane - 1][byte];
      tables[lane][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

uint32_t little_endian(const uint8_t* data) {
  return uint32_t{data[0]} | uint32_t{data[1]} << 8 | uint32_t{data[2]} << 16 |
      uint32_t{data[3]} << 24;
}

// Continues what came out for the bytes before.
uint32_t add(uint32_t crc, const uint8_t* data, uint64_t size) {
  crc = ~crc;
  for (; size >= kLanes; data += kLanes, size -= kLanes) {
    const uint32_t low = little_endian(data) ^ crc;
    const uint32_t high = little_endian(data + 4);
    crc = kTables[7][low & 0xFF] ^ kTables[6][(low >> 8) & 0xFF] ^
        kTables[5][(low >> 16) & 0xFF] ^ kTables[4][low >> 24] ^ kTables[3][high & 0xFF] ^
        kTables[2][(high >> 8) & 0xFF] ^ kTables[1][(high >> 16) & 0xFF] ^ kTables[0][high >> 24];
  }
  for (; size; ++data, --size) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ *data) & 0xFF];
  }
  return ~crc;
}

}  // namespace

uint32_t crc32_of_mapped(const uint8_t* data, uint64_t size) {
  uint32_t crc = 0;
  for (uint64_t at = 0; at < size; at += kPiece) {
    const uint64_t count = std::min(kPiece, size - at);
    crc = add(crc, data + at, count);
    drop_pages(data + at, count);
  }
  return crc;
}

}  // namespace runner

#include "tools/runner/base/checksum.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tools/runner/base/files.h"

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

// Continues the checksum of the preceding bytes.
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

constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t rotate(uint32_t x, int bits) {
  return (x >> bits) | (x << (32 - bits));
}

void add_block(uint32_t* state, const uint8_t* block) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) {
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 |
        uint32_t{block[4 * i + 2]} << 8 | uint32_t{block[4 * i + 3]};
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
        (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
  }
  uint32_t s[8];
  memcpy(s, state, sizeof(s));
  for (int i = 0; i < 64; ++i) {
    const uint32_t e = s[4], a = s[0];
    const uint32_t first = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
        ((e & s[5]) ^ (~e & s[6])) + kRound[i] + w[i];
    const uint32_t second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
        ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof(uint32_t));
    s[4] += first;
    s[0] = first + second;
  }
  for (int i = 0; i < 8; ++i) {
    state[i] += s[i];
  }
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

std::string sha256(const uint8_t* data, uint64_t size) {
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const uint64_t whole = size / 64 * 64;
  for (uint64_t i = 0; i < whole; i += 64) {
    add_block(state, data + i);
  }
  uint8_t last[128] = {};
  const uint64_t rest = size - whole;
  if (rest > 0) {
    memcpy(last, data + whole, rest);
  }
  last[rest] = 0x80;
  const int end = rest < 56 ? 64 : 128;
  for (int i = 0; i < 8; ++i) {
    last[end - 1 - i] = static_cast<uint8_t>(size * 8 >> 8 * i);
  }
  for (int i = 0; i < end; i += 64) {
    add_block(state, last + i);
  }
  std::string text;
  for (const uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) {
      text += "0123456789abcdef"[word >> shift & 15];
    }
  }
  return text;
}

}  // namespace runner

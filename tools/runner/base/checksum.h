// CRC-32 and SHA-256 (FIPS 180-4). The registries that this is built from have no small C++ library for them.
#pragma once

#include <cstdint>
#include <string>

namespace runner {

// As zlib computes it: cheap enough to check all data on every start. Keeps little of a mapped file in memory
// at any time.
uint32_t crc32_of_mapped(const uint8_t* data, uint64_t size);

// The digest in lower-case hexadecimal.
std::string sha256(const uint8_t* data, uint64_t size);

}  // namespace runner

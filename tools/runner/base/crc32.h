// CRC-32 as zlib computes it: cheap enough to check all data on every start.
#pragma once

#include <cstdint>

namespace runner {

// Of a mapped file's bytes, of which little is in memory at any time.
uint32_t crc32_of_mapped(const uint8_t* data, uint64_t size);

}  // namespace runner

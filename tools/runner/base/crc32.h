// CRC-32 as zlib computes it: cheap enough to check all data on every start.
#pragma once

#include <cstdint>

namespace runner {

uint32_t crc32(const uint8_t* data, uint64_t size);

}  // namespace runner

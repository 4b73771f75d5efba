// SHA-256 (FIPS 180-4). The package registries that this is built from have no small C++ one.
#pragma once

#include <cstdint>
#include <string>

namespace runner {

// The digest in lower-case hexadecimal.
std::string sha256(const uint8_t* data, uint64_t size);

}  // namespace runner

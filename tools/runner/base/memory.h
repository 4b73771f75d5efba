// How much memory this process has.
#pragma once

#include <cstdint>

namespace runner {

// Bytes, as the kernel counts them.
struct Memory {
  uint64_t resident = 0;   // anonymous + file + shared
  uint64_t anonymous = 0;  // The process's own: nothing can be dropped.
  uint64_t file = 0;       // Pages of mapped files: the kernel can drop and read them again.
  uint64_t peak = 0;       // The largest `resident` so far.
};

Memory memory_now();

// Bytes that the system could give to a process now, without swapping; where it doesn't say: all.
uint64_t available_memory();

}  // namespace runner

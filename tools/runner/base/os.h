// Differences between operating systems: os_linux.cc is for Linux and Android, os_apple.cc for macOS and iOS.
//
// No package has the headers of Android's C library, so builds for Android use those of another library for
// Linux. Use only what is the same in both; struct sigaction and stdout are not.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace runner {

// The error of the last failed call, in words.
inline std::string last_error() {
  return strerror(errno);
}

// Path of this process's program.
std::string own_path();

// Bytes, as the kernel counts them.
struct Memory {
  uint64_t resident = 0;   // anonymous + file + shared
  uint64_t anonymous = 0;  // Private to the process: cannot be dropped.
  uint64_t file = 0;       // Pages of mapped files: the kernel can drop and read them again.
  uint64_t peak = 0;       // The largest `resident` so far.
};

Memory memory_now();

// Bytes that the system could give to a process now, without swapping; all memory, if the system does not tell.
uint64_t available_memory();

// Bytes of the machine, as far as the kernel has them; 0: unknown.
uint64_t total_memory();

// Extensions of the processor's instructions, by the names of conditions: "dotprod", "i8mm", "fp16", "bf16", "sve",
// "sve2", "sme", "avx2", "avx512f", "avx512vnni", "avxvnni". Those that the system lets programs use.
std::vector<std::string> processor_features();

// Android's API level, the version of iOS or macOS; "": another system.
std::string os_level();

// The system on a chip: Android's ro.soc.model; of Apple's devices the model, such as "iPhone16,1", as no function tells
// the chip; "": unknown.
std::string soc_name();

// Writes what the system keeps of an open file or folder to the disk.
bool flush_to_disk(int file);

// For measuring durations.
inline std::chrono::steady_clock::time_point now() {
  return std::chrono::steady_clock::now();
}

inline double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(now() - start).count();
}

}  // namespace runner

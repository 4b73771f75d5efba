// What differs between operating systems: os_linux.cc is Android's, too, os_apple.cc macOS's and iOS's.
//
// The headers of Android's C library are in no package: another one's for Linux stand in for them. So
// only what is the same in both may be used there, which struct sigaction and stdout are not.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace runner {

// Of the last call that failed, in words.
std::string last_error();

// Path of this process's program.
std::string own_path();

// Has a signal call `handler`, on a stack of its own where that can be had.
void handle_signal(int number, void (*handler)(int));

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

// How long things take.
inline std::chrono::steady_clock::time_point now() {
  return std::chrono::steady_clock::now();
}

inline double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(now() - start).count();
}

}  // namespace runner

// What differs between operating systems: os_linux.cc is Android's, too, os_apple.cc macOS's and iOS's.
//
// The headers of Android's C library are in no package: another one's for Linux stand in for them. So
// only what is the same in both may be used there, which struct sigaction and stdout are not.
#pragma once

#include <string>

namespace runner {

// Of the last call that failed, in words.
std::string last_error();

// Path of this process's program.
std::string own_path();

// Has a signal call `handler`, on a stack of its own where that can be had.
void handle_signal(int number, void (*handler)(int));

}  // namespace runner

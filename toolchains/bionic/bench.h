// Functions that libc.so, which has Android's names, hands to libbench.so, which has glibc's functions.

#pragma once

// A stream of Android: nothing looks into it, but its size gives the places in an array of them.
struct bionic_file {
  char bytes[152];
};

// A function by name, and where its address goes. The last one has no name.
struct bench_function {
  const char* name;
  void** place;
};

// Fills in the addresses of functions and the standard streams.
//
// A function that neither libbench.so nor glibc has ends the process with its name.
void bench_fill(const struct bench_function* functions, void** const streams[3],
                struct bionic_file files[3]);

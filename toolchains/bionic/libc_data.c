// Variables of Android's libc.so, and the call that fills in variables and functions.

#include "bench.h"

void* stdin;
void* stdout;
void* stderr;

// Programs for old versions of Android name the standard streams by their places in this array.
struct bionic_file __sF[3];

extern const struct bench_function bench_functions[];

// Before the constructors of libraries that need libc.so, which the dynamic linker runs later.
__attribute__((constructor)) static void fill(void) {
  void** const streams[3] = {&stdin, &stdout, &stderr};
  bench_fill(bench_functions, streams, __sF);
}

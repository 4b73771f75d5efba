// Finds what Android's functions are on this machine.

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "streams.h"

// Linux on arm64 has the thread's pointer at the begin of the thread's variables, and Android's
// programs read the stack's guard 40 bytes after it. These variables, of the library that is loaded
// first, keep that place from changing. x86_64's guard has the same place in both C libraries.
__attribute__((tls_model("initial-exec"))) static _Thread_local volatile char thread_slots[64];

static void* open_library(const char* name) {
  void* library = dlopen(name, RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "bionic bench: %s\n", dlerror());
    abort();
  }
  return library;
}

void bench_fill(const struct bench_function* functions, void** const streams[3],
                struct bionic_file files[3]) {
  void* const libraries[] = {open_library("libc.so.6"), open_library("libm.so.6")};
  void* const translations = open_library("libbench.so");
  // A use, so that they are not left out.
  thread_slots[0] = 0;
  bench_set_streams(streams, files);
  for (; functions->name != NULL; functions++) {
    char translation[64];
    snprintf(translation, sizeof translation, "bionic_%s", functions->name);
    void* found = dlsym(translations, translation);
    for (int i = 0; found == NULL && i < 2; i++) found = dlsym(libraries[i], functions->name);
    if (found == NULL) {
      fprintf(stderr, "bionic bench: this machine's C library has no function %s.\n", functions->name);
      abort();
    }
    *functions->place = found;
  }
}

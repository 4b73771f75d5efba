// The start of a program: what its entry point calls.

#define _GNU_SOURCE

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>

typedef void (*constructor)(int, char**, char**);

struct constructors {
  uintptr_t preinit;
  size_t preinit_size;
  uintptr_t init;
  size_t init_size;
};

// The program itself is the first object.
static int find_constructors(struct dl_phdr_info* program, size_t size, void* found) {
  (void)size;
  struct constructors* all = found;
  for (int i = 0; i < program->dlpi_phnum; i++) {
    if (program->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const ElfW(Dyn)* entry = (const ElfW(Dyn)*)(program->dlpi_addr + program->dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; entry++) {
      if (entry->d_tag == DT_PREINIT_ARRAY) all->preinit = program->dlpi_addr + entry->d_un.d_ptr;
      if (entry->d_tag == DT_PREINIT_ARRAYSZ) all->preinit_size = entry->d_un.d_val;
      if (entry->d_tag == DT_INIT_ARRAY) all->init = program->dlpi_addr + entry->d_un.d_ptr;
      if (entry->d_tag == DT_INIT_ARRAYSZ) all->init_size = entry->d_un.d_val;
    }
  }
  return 1;
}

static void run(uintptr_t array, size_t size, int argc, char** argv, char** environment) {
  const constructor* const all = (const constructor*)array;
  for (size_t i = 0; i < size / sizeof *all; i++) all[i](argc, argv, environment);
}

// `stack` is what the kernel hands to a program: the number of arguments, arguments, environment.
// Android's dynamic linker runs the program's constructors; glibc's leaves them to glibc's start code,
// which is not in a program for Android.
void bionic___libc_init(void* stack, void (*at_exit)(void), int (*main)(int, char**, char**),
                        const void* structors) {
  (void)at_exit;
  (void)structors;
  int argc = (int)*(long*)stack;
  char** argv = (char**)stack + 1;
  char** environment = argv + argc + 1;
  struct constructors found = {0};
  dl_iterate_phdr(find_constructors, &found);
  run(found.preinit, found.preinit_size, argc, argv, environment);
  run(found.init, found.init_size, argc, argv, environment);
  exit(main(argc, argv, environment));
}

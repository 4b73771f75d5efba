// Functions that glibc lacks, or has with other arguments, numbers or types.

#define _GNU_SOURCE

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int* bionic___errno(void) { return &errno; }

void bionic___assert2(const char* file, int line, const char* function, const char* failed) {
  fprintf(stderr, "%s:%d: %s: assertion \"%s\" failed\n", file, line, function, failed);
  abort();
}

void bionic_android_set_abort_message(const char* message) {
  fprintf(stderr, "abort message: %s\n", message);
}

// The bench has no system properties: a property that isn't set is empty.
int bionic___system_property_get(const char* name, char* value) {
  (void)name;
  *value = '\0';
  return 0;
}

// Checks of buffers' sizes that glibc has no function for.
size_t bionic___strlen_chk(const char* s, size_t size) {
  (void)size;
  return strlen(s);
}
char* bionic___strchr_chk(char* s, int c, size_t size) {
  (void)size;
  return strchr(s, c);
}
char* bionic___strrchr_chk(char* s, int c, size_t size) {
  (void)size;
  return strrchr(s, c);
}
ssize_t bionic___write_chk(int file, const void* from, size_t n, size_t size) {
  (void)size;
  return write(file, from, n);
}

// Android's strerror_r is that of POSIX, and GNU's has another name.
int bionic_strerror_r(int error, char* buffer, size_t size) {
  const char* message = strerror_r(error, buffer, size);
  if (size != 0 && message != buffer) snprintf(buffer, size, "%s", message);
  return 0;
}
char* bionic___gnu_strerror_r(int error, char* buffer, size_t size) {
  return strerror_r(error, buffer, size);
}

extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void*);
int bionic___register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                             void* library) {
  return __register_atfork(prepare, parent, child, library);
}

// Android numbers what is asked for in its own way.
long bionic_sysconf(int what) {
  switch (what) {
    case 0x06:
      return sysconf(_SC_CLK_TCK);
    case 0x27:
    case 0x28:
      return sysconf(_SC_PAGESIZE);
    case 0x60:
      return sysconf(_SC_NPROCESSORS_CONF);
    case 0x61:
      return sysconf(_SC_NPROCESSORS_ONLN);
    case 0x62:
      return sysconf(_SC_PHYS_PAGES);
    case 0x63:
      return sysconf(_SC_AVPHYS_PAGES);
  }
  fprintf(stderr, "bionic bench: sysconf(0x%x) has no translation.\n", what);
  abort();
}

long bionic_pathconf(const char* path, int what) {
  switch (what) {
    case 4:
      return pathconf(path, _PC_NAME_MAX);
    case 5:
      return pathconf(path, _PC_PATH_MAX);
  }
  fprintf(stderr, "bionic bench: pathconf(%d) has no translation.\n", what);
  abort();
}

// A set of signals is 8 bytes in Android, 128 in glibc.
int bionic_sigfillset(unsigned long* set) {
  *set = ~0ul;
  return 0;
}
int bionic_pthread_sigmask(int how, const unsigned long* set, unsigned long* old) {
  sigset_t wanted;
  sigset_t before;
  sigemptyset(&wanted);
  if (set != NULL) memcpy(&wanted, set, sizeof *set);
  int error = pthread_sigmask(how, set != NULL ? &wanted : NULL, &before);
  if (old != NULL) memcpy(old, &before, sizeof *old);
  return error;
}

// Attributes have another layout, and no function that makes them is among those of the bench.
int bionic_pthread_create(pthread_t* thread, const void* attributes, void* (*run)(void*), void* with) {
  if (attributes != NULL) {
    fputs("bionic bench: pthread_create with attributes has no translation.\n", stderr);
    abort();
  }
  return pthread_create(thread, NULL, run, with);
}

// A long double of Android's has 16 bytes of precision, one of glibc's on x86_64 has 10.
#if defined(__x86_64__)
#define REFUSED(name)                                                                      \
  void bionic_##name(void) {                                                               \
    fputs("bionic bench: " #name " handles long doubles: no translation on x86_64.\n", stderr); \
    abort();                                                                               \
  }
REFUSED(frexpl)
REFUSED(ldexpl)
REFUSED(strtold)
REFUSED(strtold_l)
REFUSED(wcstold)
#endif

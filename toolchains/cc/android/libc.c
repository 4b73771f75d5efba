/* What programs compiled with musl's headers call, and bionic has under another name or in its start
 * files only. Each function calls bionic's. */

/* Weak: a program may bring its own. */
#define HIDDEN __attribute__((visibility("hidden"), weak))

extern void *__dso_handle;

extern int *__errno(void);
HIDDEN int *__errno_location(void) { return __errno(); }

extern void __assert2(const char *file, int line, const char *function, const char *condition)
    __attribute__((noreturn));
HIDDEN __attribute__((noreturn)) void __assert_fail(const char *condition, const char *file,
                                                    int line, const char *function) {
  __assert2(file, line, function, condition);
}

extern int __cxa_atexit(void (*)(void *), void *, void *);
HIDDEN int atexit(void (*function)(void)) {
  return __cxa_atexit((void (*)(void *))function, 0, __dso_handle);
}

extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);
HIDDEN int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  return __register_atfork(prepare, parent, child, __dso_handle);
}

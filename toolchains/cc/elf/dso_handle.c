/* Names this program or library towards atexit: what a compiler's crtbegin.o is otherwise for. */
__attribute__((visibility("hidden"))) void *__dso_handle = &__dso_handle;

#ifdef SHARED_LIBRARY
extern void __cxa_finalize(void *);

/* Destructors of static objects run when the library is unloaded. */
__attribute__((destructor)) static void finalize(void) { __cxa_finalize(__dso_handle); }
#endif

// libstdc++ was configured on a newer glibc than the one that programs are made for.
#pragma once
#include_next <bits/c++config.h>

// Functions of glibc 2.30.
#undef _GLIBCXX_USE_PTHREAD_COND_CLOCKWAIT
#undef _GLIBCXX_USE_PTHREAD_MUTEX_CLOCKLOCK
#undef _GLIBCXX_USE_PTHREAD_RWLOCK_CLOCKLOCK

// Threads have a library of their own before glibc 2.34; a weak reference would not load it.
#undef _GLIBCXX_GTHREAD_USE_WEAK
#define _GLIBCXX_GTHREAD_USE_WEAK 0

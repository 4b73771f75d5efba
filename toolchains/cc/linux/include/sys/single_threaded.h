// glibc has this variable since 2.32. Without it programs always count references atomically.
#pragma once
static const char __libc_single_threaded = 0;

// libm.so, libdl.so and libandroid.so: programs name them, but all functions are in libc.so.

const char bench_has_no_functions_here = 0;

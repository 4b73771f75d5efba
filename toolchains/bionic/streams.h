// The standard streams under Android's addresses.

#pragma once

#include "bench.h"

// Gives the variables their values, and remembers the array.
void bench_set_streams(void** const streams[3], struct bionic_file files[3]);

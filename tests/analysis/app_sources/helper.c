#include "tests/analysis/app_sources/util.h"

/* A keyword of C++: a C++ compiler refuses it. */
static int new = UTIL_ANSWER;

int helper(void) { return new - UTIL_ANSWER; }

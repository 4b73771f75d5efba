#pragma once
#define UTIL_ANSWER 42
#ifdef __cplusplus
extern "C"
#endif
    int
    helper(void);

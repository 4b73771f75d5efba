// The runtime's error codes, in words.
#pragma once

#include <string>

#include <executorch/runtime/core/error.h>

namespace runner {

// Ends the process with "<what>: <the error in words>." if `error` is one.
void check(executorch::runtime::Error error, const std::string& what);

}  // namespace runner

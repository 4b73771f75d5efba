// Small files as a whole.
#pragma once

#include <string>

namespace runner {

// What a file has, also one of the kernel's, whose size isn't known; "": it can't be read.
std::string text_of(const char* path);

}  // namespace runner

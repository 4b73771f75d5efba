// Checks a program's files before anything is loaded.
#pragma once

#include <string>
#include <vector>

#include "tools/runner/arguments.h"
#include "tools/runner/weight_cache.h"

namespace runner {

struct CheckedFiles {
  std::vector<std::string> data;  // In the order to load them.
  CacheUse cache_use;
};

// Ends the process with a sentence if a file is missing, damaged or not the one that the program
// was built with.
CheckedFiles check_files(const Arguments::Program& program, bool verify);

}  // namespace runner

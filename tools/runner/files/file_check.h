// Checks a program's files before anything is loaded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tools/runner/arguments.h"
#include "tools/runner/base/mapped_file.h"
#include "tools/runner/files/data_file.h"
#include "tools/runner/files/weight_cache.h"

namespace runner {

struct CheckedFiles {
  std::shared_ptr<const MappedFile> program;
  std::map<std::string, uint64_t> named_data;  // Inside of the program: key to bytes.
  DataFiles data;
  CacheUse cache_use;
};

// Ends the process with a sentence if a file is missing, damaged or not the one that the program
// was built with.
CheckedFiles check_files(const Arguments::Program& program, bool verify, OpenDataFiles& open);

}  // namespace runner

// Checks a program's files before anything is loaded, as the runtime trusts what it is given.
//
// Which file stands for which data of the manifest is decided by what files hold, then by their names. Each key
// has the bytes that the program was built with, or those of another adapter whose index has the same interface.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/runner/base/files.h"
#include "tools/runner/bundled/bundled_file.h"
#include "tools/runner/files/executorch_files.h"
#include "tools/runner/files/weight_cache.h"

namespace runner {

// What a program is loaded from.
struct ProgramFiles {
  std::string program;
  std::string manifest;           // "": none.
  std::vector<std::string> data;  // As a user named them.
  // Where other data files of the manifest are, by their labels or names.
  std::map<std::string, std::string> known_data;
  bool is_bundled = false;
  bool is_of_app = false;  // Whose manifest has hashes of all files.
};

struct CheckedFiles {
  std::shared_ptr<const MappedFile> program;
  std::string_view program_bytes;  // All of that file, or the program in a bundle.
  std::vector<BundledCase> cases;  // Of a bundle.
  std::map<std::string, uint64_t> named_data;  // Inside of the program: key to bytes.
  DataFiles data;
  CacheUse cache_use;
};

// An error, if a file is missing, damaged or not the one that the program was built with.
Result<CheckedFiles> check_files(const ProgramFiles& files, bool verify, OpenDataFiles& open);

}  // namespace runner

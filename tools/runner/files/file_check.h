// Checks a program's files before anything is loaded, because the runtime trusts its inputs.
//
// Files are matched with the manifest's data by contents, then by name. Each key must have the bytes that the
// program was built with, or those of another adapter whose manifest has the same interface.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/runner/base/files.h"
#include "tools/runner/files/executorch_files.h"
#include "tools/runner/files/weight_cache.h"

namespace runner {

// The files of a program.
struct ProgramFiles {
  std::string program;
  std::string manifest;           // "": none.
  std::string name;               // In the manifest; "": that of the file.
  std::vector<std::string> data;  // As on the command line.
  bool is_bundled = false;
};

struct CheckedFiles {
  std::shared_ptr<const MappedFile> program;
  std::string_view program_bytes;  // The whole file, or the program in a bundle.
  std::map<std::string, uint64_t> named_data;  // Inside of the program: key to bytes.
  DataFiles data;
  DeclaredInputs declared;  // Empty without a manifest.
  CacheUse cache_use;
  ContentKeys content_keys;  // For loading with the weight cache.
  CacheLease lease;          // nullptr: loaded without it.
};

// An error, if a file is missing, damaged or not the one that the program was built with.
Result<CheckedFiles> check_files(const ProgramFiles& files, bool verify, OpenDataFiles& open);

}  // namespace runner

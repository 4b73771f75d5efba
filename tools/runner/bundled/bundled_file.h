// A .bpte file: a program with inputs and expected outputs (bundled_program_schema.fbs).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tools/runner/base/files.h"
#include "tools/runner/tensors/array.h"

namespace runner {

struct BundledCase {
  std::string_view method;  // In the mapped file: thousands of cases may share one long name.
  size_t number = 0;  // Of the method's cases.
  std::vector<Array> inputs;
  std::vector<Array> expected;
};

struct BundledFile {
  // The program inside of the file.
  const uint8_t* program = nullptr;
  uint64_t program_size = 0;
  std::vector<BundledCase> cases;
};

// An error, if it is not a .bpte file, or is truncated or damaged.
Result<BundledFile> read_bundled(const MappedFile& file);

}  // namespace runner

// Files of arrays in row-major order: NumPy's .npy, and .safetensors, which have names for them.
//
// Both are read from unknown origin: an array that comes out has exactly the bytes that its shape says.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/runner/base/files.h"
#include "tools/runner/tensors/array.h"

namespace runner {

// An error, if it is no .npy file, or none that the runner reads.
Result<Array> read_npy(const std::string& path);

// What stands before the array's data; an error, if the file can't have it.
Result<std::string> npy_head(const std::string& path, const Array& array);

// A file whose header was read, once for all of its tensors.
class SafetensorsFile {
 public:
  // An error, if it is no such file, or is truncated or damaged.
  static Result<SafetensorsFile> open(const std::string& path);

  // An error, if it has no such tensor, or none that the runner reads.
  Result<Array> tensor(const std::string& name) const;

 private:
  struct Entry {
    std::string dtype;
    std::vector<int64_t> shape;
    uint64_t start = 0;  // In the file.
    uint64_t end = 0;
  };

  explicit SafetensorsFile(MappedFile file) : file_(std::move(file)) {}
  Status read();
  Status damaged(const std::string& how) const;

  MappedFile file_;
  std::map<std::string, Entry> entries_;
};

// What stands before the tensors' data.
std::string safetensors_head(
    const std::vector<std::pair<std::string, const Array*>>& tensors);

}  // namespace runner

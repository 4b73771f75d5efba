// Files of arrays in row-major order: NumPy's .npy, and .safetensors, which have names for them.
//
// Neither is trusted: a returned array has exactly the bytes of its shape.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/runner/base/files.h"
#include "tools/runner/tensors/array.h"

namespace runner {

// An error, if it is not a .npy file, or an unsupported one.
Result<Array> read_npy(const std::string& path);

// The bytes before the array's data; an error, if the format does not support the array.
Result<std::string> npy_head(const std::string& path, const ArrayView& array);

// A file with its parsed header.
class SafetensorsFile {
 public:
  // An error, if it is not such a file, or is truncated or damaged.
  static Result<SafetensorsFile> open(const std::string& path);

  // An error, if it has no such tensor, or an unsupported one.
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

// The bytes before the tensors' data.
std::string safetensors_head(const std::vector<std::pair<std::string, ArrayView>>& tensors);

}  // namespace runner

// A .ptd file: named data that programs load at run time (flat_tensor.fbs).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tools/runner/mapped_file.h"

namespace runner {

class DataFile {
 public:
  struct Blob {
    uint64_t offset = 0;  // In the file.
    uint64_t size = 0;
  };

  // Ends the process with a sentence if it is no .ptd file, or is truncated or damaged.
  explicit DataFile(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::map<std::string, Blob>& blobs() const { return blobs_; }
  bool has(const std::string& key) const { return blobs_.count(key) != 0; }

  // Of a key that it has, in hexadecimal.
  std::string sha256_of(const std::string& key) const;
  uint32_t crc32_of(const std::string& key) const;

 private:
  std::unique_ptr<MappedFile> file_;
  std::map<std::string, Blob> blobs_;
};

}  // namespace runner

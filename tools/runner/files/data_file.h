// A .ptd file: named data that programs load at run time (flat_tensor.fbs).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/runner/base/mapped_file.h"

namespace runner {

class DataFile {
 public:
  struct Blob {
    const uint8_t* data = nullptr;  // In the mapped file.
    uint64_t size = 0;
    // Of a tensor's bytes; a delegate's have none.
    bool has_layout = false;
    int8_t scalar_type = 0;
    std::vector<int32_t> sizes;
    std::vector<uint8_t> dim_order;
  };

  // Ends the process with a sentence if it is no .ptd file, or is truncated or damaged.
  explicit DataFile(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::map<std::string, Blob>& blobs() const { return blobs_; }
  bool has(const std::string& key) const { return blobs_.count(key) != 0; }

  // Of a key that it has, in hexadecimal.
  std::string sha256_of(const std::string& key) const;
  // Computed once: programs that share the file ask again.
  uint32_t crc32_of(const std::string& key) const;

 private:
  std::unique_ptr<MappedFile> file_;
  std::map<std::string, Blob> blobs_;
  mutable std::map<std::string, uint32_t> crc32s_;
};

using DataFiles = std::vector<std::shared_ptr<const DataFile>>;

// The data files of a process: each is mapped once, however many programs use it.
class OpenDataFiles {
 public:
  // Ends the process with a sentence as DataFile does.
  std::shared_ptr<const DataFile> open(const std::string& path);

 private:
  std::map<std::string, std::shared_ptr<const DataFile>> files_;
};

}  // namespace runner

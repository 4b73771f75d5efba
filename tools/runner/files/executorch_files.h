// The outer layouts of ExecuTorch's files: .pte (program.fbs), and .ptd (flat_tensor.fbs), which holds named
// data that programs load at run time.
//
// All returned data lie inside of the file, and two pieces are either the same segment or do not overlap. So
// later readers need no checks, and hashing takes time in proportion to the file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/runner/base/files.h"
#include "tools/runner/base/result.h"
#include "tools/runner/files/flatbuffer.h"
#include "tools/runner/files/manifest.h"

namespace runner {

class DataFile {
 public:
  struct Blob {
    const uint8_t* data = nullptr;  // In the mapped file.
    uint64_t size = 0;
    std::optional<KeyLayout> layout;  // Of a tensor; a delegate's data have none.
  };

  // An error, if it is not a .ptd file, or is truncated or damaged.
  static Result<DataFile> open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::map<std::string, Blob>& blobs() const { return blobs_; }
  bool has(const std::string& key) const { return blobs_.count(key) != 0; }

  // For an existing key, in hexadecimal.
  std::string sha256_of(const std::string& key) const;
  uint32_t crc32_of(const std::string& key) const;

 private:
  using Segment = std::pair<const uint8_t*, uint64_t>;

  explicit DataFile(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}
  Status read();
  Status read_named(const FlatBuffer::Vector& segments, uint64_t item, uint64_t base, FlatBuffer& tables);
  Status check_segments() const;

  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, Blob> blobs_;
};

using DataFiles = std::vector<std::shared_ptr<const DataFile>>;

// The data files of a process: each is mapped once for all programs.
class OpenDataFiles {
 public:
  // Errors as in DataFile.
  Result<std::shared_ptr<const DataFile>> open(const std::string& path);

  // Each is read once. Errors as in read_manifest.
  Result<std::shared_ptr<const Manifest>> manifest(const std::string& path);

 private:
  std::map<std::string, std::shared_ptr<const DataFile>> files_;
  std::map<std::string, std::shared_ptr<const Manifest>> manifests_;
};

// Contents of a program.
struct ProgramContents {
  std::map<std::string, uint64_t> named_data;  // Key to size in bytes.
  bool has_inline_payloads = false;            // Payloads of delegates in the tables, not in segments.
};

// `path` is for errors. An error, if it is not a .pte file, or if its segments do not lie in it.
Result<ProgramContents> check_program_file(const std::string& path, std::string_view bytes);

}  // namespace runner

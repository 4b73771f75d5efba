// A file's bytes, mapped read-only.
#pragma once

#include <cstdint>
#include <string>

namespace runner {

class MappedFile {
 public:
  // Ends the process with a sentence, which has `what` in it, if `path` is no readable file.
  MappedFile(const std::string& path, const std::string& what);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  const uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  std::string path_;
  const uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
};

// Whether there is a regular file.
bool is_file(const std::string& path);

}  // namespace runner

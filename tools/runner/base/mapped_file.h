// A file's bytes, mapped read-only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  std::string path_;
  const uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
};

// Gives back the memory of the whole pages inside of a mapped file's bytes: who reads them again gets
// them from the file.
void drop_pages(const uint8_t* data, uint64_t size);

// Whether there is a regular file, or a folder.
bool is_file(const std::string& path);
bool is_folder(const std::string& path);

}  // namespace runner

// Files: their names, reading, and writing them whole or not at all.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/runner/base/result.h"

namespace runner {

// A file's bytes, mapped read-only.
class MappedFile {
 public:
  // An error that names `what`, if `path` is not a readable file.
  static Result<MappedFile> open(const std::string& path, const std::string& what);
  // The same, but what this process has mapped already, if the file is unchanged.
  static Result<std::shared_ptr<const MappedFile>> open_shared(const std::string& path, const std::string& what);
  MappedFile(MappedFile&& other) noexcept;
  ~MappedFile();
  MappedFile& operator=(MappedFile&&) = delete;

  const std::string& path() const { return path_; }
  const uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

  // Of a piece of it. Each piece is read once, whoever asks.
  uint32_t crc32_of(const uint8_t* data, uint64_t size) const;
  std::string sha256_of(const uint8_t* data, uint64_t size) const;

 private:
  using Piece = std::pair<const uint8_t*, uint64_t>;

  MappedFile() = default;

  std::string path_;
  const uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
  mutable std::map<Piece, uint32_t> crc32s_;
  mutable std::map<Piece, std::string> sha256s_;
};

// Frees the memory of whole pages inside of a mapped file's bytes: a later access reads them from the file
// again.
void drop_pages(const uint8_t* data, uint64_t size);

// Tells whether a regular file, or a folder, exists.
bool is_file(const std::string& path);
bool is_folder(const std::string& path);

// A file's contents, also of a kernel file of unknown size; "": not readable.
std::string text_of(const char* path);

// Writes to standard output, without a buffer.
Status write_to_stdout(std::string_view text);

// Output files that appear all at once: each is written beside its final path, and none remains if one cannot be
// written. Their bytes are on the disk before any gets its name, so a loss of power leaves the old file or the new one.
// Pipes and devices are written directly.
class OutputFiles {
 public:
  OutputFiles() = default;
  ~OutputFiles();
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  // Begins a file, to which `add` adds.
  Status start(const std::string& path);
  Status add(std::string_view piece);
  // Renames all files to their final paths.
  Status commit();

 private:
  struct File {
    std::string path;
    std::string part;  // The temporary path; after `commit` the final one.
  };

  // Ends the file that `start` began; it stays locked, which says that this process writes it, until it is closed.
  Status flush();
  Status finish();

  std::vector<File> files_;
  int file_ = -1;
};

// Writes one file from pieces.
Status write_file(const std::string& path, const std::vector<std::string_view>& pieces);

// Creates a folder and its parents.
Status make_folders(const std::string& path);

// Tells whether a name from an untrusted file is a plain file name on every system.
inline bool is_plain_name(std::string_view name) {
  bool is_plain = !name.empty() && name != "." && name != "..";
  for (const char c : name) {
    is_plain = is_plain && c != '/' && c != '\\' && static_cast<unsigned char>(c) >= ' ' && c != 0x7F;
  }
  return is_plain;
}

// The same for names with single slashes between them: a path below a folder.
inline bool is_plain_path(std::string_view path) {
  for (size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/')) {
    if (!is_plain_name(path.substr(0, slash))) {
      return false;
    }
    path.remove_prefix(slash + 1);
  }
  return is_plain_name(path);
}

inline std::string base_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

inline std::string beside(const std::string& path, const std::string& name) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? name : path.substr(0, slash + 1) + name;
}

// The path without the last extension of its base name.
inline std::string without_extension(const std::string& path) {
  const std::string base = base_name(path);
  const size_t dot = base.rfind('.');
  return dot == std::string::npos ? path : path.substr(0, path.size() - (base.size() - dot));
}

inline bool ends_with(const std::string& path, const std::string& end) {
  return path.size() > end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0;
}

}  // namespace runner

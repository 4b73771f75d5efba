#include "tools/runner/base/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <set>
#include <tuple>

#include "tools/runner/base/checksum.h"
#include "tools/runner/base/lock.h"
#include "tools/runner/base/os.h"

namespace runner {
namespace {

// The largest limit of all systems with a runtime.
constexpr uintptr_t kPage = 1 << 16;

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      // Another process made this pipe or terminal non-blocking.
      pollfd ready = {file, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (written == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool is_regular_or_missing(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
}

// Tells whether a path still leads to an open file.
bool leads_to(const std::string& path, int file) {
  struct stat by_path = {}, by_file = {};
  return lstat(path.c_str(), &by_path) == 0 && fstat(file, &by_file) == 0 && by_path.st_dev == by_file.st_dev &&
      by_path.st_ino == by_file.st_ino;
}

// Removes a part that nobody writes: its writer has it locked as long as it lives, in whatever container.
bool remove_stale(const std::string& part) {
  const int file = open(part.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  const bool is_removed = file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0 && leads_to(part, file) &&
      unlink(part.c_str()) == 0;
  if (file >= 0) {
    close(file);
  }
  return is_removed;
}

int create_new(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

// Creates the file that will be renamed to `path`; -1: see last_error(). A process that was killed leaves its part, and
// in containers every process has the same number.
int create_part(const std::string& path, std::string& part) {
  constexpr int kMaxTries = 100;
  const std::string start = path + "." + std::to_string(getpid()) + ".";
  for (int i = 0; i < kMaxTries; ++i) {
    part = start + (i == 0 ? "" : std::to_string(i) + ".") + "part";
    int file = create_new(part);
    if (file < 0 && errno != EEXIST) {
      return -1;
    }
    if (file < 0 && remove_stale(part)) {
      file = create_new(part);
    }
    if (file < 0) {
      continue;
    }
    // Some file systems have no locks.
    const bool is_locked = flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (is_locked && leads_to(part, file)) {
      return file;
    }
    close(file);
  }
  errno = EEXIST;
  return -1;
}

// Writes the names of a folder to the disk. Some systems cannot, and the files are in place.
void flush_folder(const std::string& folder) {
  const int opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened >= 0) {
    flush_to_disk(opened);
    close(opened);
  }
}

// A file as it was when it was mapped.
using Version = std::tuple<std::string, uint64_t, uint64_t, int64_t, int64_t, int64_t>;

Version version_of(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    return {};
  }
#if defined(__APPLE__)
  const timespec& modified = status.st_mtimespec;
#else
  const timespec& modified = status.st_mtim;
#endif
  return {path, status.st_dev, status.st_ino, status.st_size, modified.tv_sec, modified.tv_nsec};
}

// Never destroyed: threads may still run when the process ends.
std::map<Version, std::weak_ptr<const MappedFile>>& shared_files() {
  static auto* files = new std::map<Version, std::weak_ptr<const MappedFile>>();
  return *files;
}

std::atomic_flag files_are_locked = ATOMIC_FLAG_INIT;
std::atomic_flag sums_are_locked = ATOMIC_FLAG_INIT;

// Returns the result of `compute` for a key, computed once.
template <class Key, class Value, class Compute>
Value computed_once(std::map<Key, Value>& known, const Key& key, const Compute& compute) {
  {
    const Lock lock(sums_are_locked);
    const auto found = known.find(key);
    if (found != known.end()) {
      return found->second;
    }
  }
  // Without the lock: it may read gigabytes.
  const Value value = compute();
  const Lock lock(sums_are_locked);
  return known.emplace(key, value).first->second;
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open_shared(const std::string& path, const std::string& what) {
  const Version version = version_of(path);
  {
    const Lock lock(files_are_locked);
    const auto found = shared_files().find(version);
    const auto file = found == shared_files().end() ? nullptr : found->second.lock();
    if (file != nullptr) {
      return file;
    }
  }
  std::shared_ptr<const MappedFile> opened = std::make_shared<MappedFile>(TRY(open(path, what)));
  const Lock lock(files_are_locked);
  for (auto file = shared_files().begin(); file != shared_files().end();) {
    file = file->second.expired() ? shared_files().erase(file) : std::next(file);
  }
  // A file that was replaced meanwhile is not of that version.
  if (version == version_of(path)) {
    shared_files()[version] = opened;
  }
  return opened;
}

uint32_t MappedFile::crc32_of(const uint8_t* data, uint64_t size) const {
  return computed_once(crc32s_, Piece(data, size), [data, size] { return crc32_of_mapped(data, size); });
}

std::string MappedFile::sha256_of(const uint8_t* data, uint64_t size) const {
  return computed_once(sha256s_, Piece(data, size), [data, size] {
    const std::string digest = sha256(data, size);
    drop_pages(data, size);
    return digest;
  });
}

Result<MappedFile> MappedFile::open(const std::string& path, const std::string& what) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return error(path + " cannot be opened: " + last_error() + " (" + what + ").");
  }
  struct stat status = {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file);
    return error(path + " is not a file (" + what + ").");
  }
  MappedFile opened;
  opened.path_ = path;
  const auto size = static_cast<uint64_t>(status.st_size);
  void* mapped = size == 0 ? nullptr : mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  const std::string reason = last_error();
  close(file);
  if (mapped == MAP_FAILED) {
    return error(path + " cannot be mapped into memory: " + reason + " (" + what + ").");
  }
  opened.data_ = static_cast<const uint8_t*>(mapped);
  opened.size_ = size;
  return opened;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    munmap(const_cast<uint8_t*>(data_), size_);
  }
}

void drop_pages(const uint8_t* data, uint64_t size) {
  const auto start = reinterpret_cast<uintptr_t>(data);
  const uintptr_t first = (start + kPage - 1) / kPage * kPage;
  const uintptr_t end = (start + size) / kPage * kPage;
  if (first < end) {
    madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
  }
}

bool is_file(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_folder(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string text_of(const char* path) {
  std::string text;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  char piece[4096];
  ssize_t length = 0;
  while (file >= 0 && (length = read(file, piece, sizeof(piece))) > 0) {
    text.append(piece, static_cast<size_t>(length));
  }
  if (file >= 0) {
    close(file);
  }
  return text;
}

Status write_to_stdout(std::string_view text) {
  if (!write_all(STDOUT_FILENO, text)) {
    return error("standard output cannot be written: " + last_error() + ".");
  }
  return {};
}

OutputFiles::~OutputFiles() {
  if (file_ >= 0) {
    close(file_);
  }
  for (const File& file : files_) {
    if (file.part != file.path) {
      unlink(file.part.c_str());
    }
  }
}

Status OutputFiles::start(const std::string& path) {
  TRY(finish());
  const bool is_beside = is_regular_or_missing(path);
  // Before there is a file that must be removed again.
  files_.push_back({path, path});
  std::string part = path;
  file_ = is_beside ? create_part(path, part) : open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_TRUNC, 0666);
  if (file_ < 0) {
    const std::string reason = last_error();
    files_.pop_back();
    return error(path + " cannot be written: " + reason + ".");
  }
  files_.back().part = std::move(part);
  return {};
}

Status OutputFiles::add(std::string_view piece) {
  if (!write_all(file_, piece)) {
    return error(files_.back().path + " cannot be written: " + last_error() + ".");
  }
  return {};
}

Status OutputFiles::flush() {
  // Pipes, and some file systems, have nothing to flush.
  if (file_ >= 0 && files_.back().part != files_.back().path && !flush_to_disk(file_) && errno != EINVAL &&
      errno != ENOTSUP && errno != ENOSYS) {
    return error(files_.back().path + " cannot be written: " + last_error() + ".");
  }
  return {};
}

Status OutputFiles::finish() {
  TRY(flush());
  const int file = std::exchange(file_, -1);
  if (file >= 0 && close(file) != 0) {
    return error(files_.back().path + " cannot be written: " + last_error() + ".");
  }
  return {};
}

Status OutputFiles::commit() {
  TRY(flush());
  std::set<std::string> folders;
  for (File& file : files_) {
    if (file.part == file.path) {
      continue;
    }
    if (rename(file.part.c_str(), file.path.c_str()) != 0) {
      return error(file.path + " cannot be written: " + last_error() + ".");
    }
    file.part = file.path;
    folders.insert(beside(file.path, "."));
  }
  for (const std::string& folder : folders) {
    flush_folder(folder);
  }
  const int file = std::exchange(file_, -1);
  if (file >= 0 && close(file) != 0) {
    return error(files_.back().path + " cannot be written: " + last_error() + ".");
  }
  return {};
}

Status write_file(const std::string& path, const std::vector<std::string_view>& pieces) {
  OutputFiles files;
  TRY(files.start(path));
  for (const std::string_view piece : pieces) {
    TRY(files.add(piece));
  }
  return files.commit();
}

Status make_folders(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    const std::string reason = mkdir(folder.c_str(), 0777) == 0 ? "" : last_error();
    if (!reason.empty() && !is_folder(folder)) {
      return error(path + " cannot be created: " + reason + ".");
    }
    if (slash == std::string::npos) {
      return {};
    }
  }
}

}  // namespace runner

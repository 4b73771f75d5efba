#include "tools/runner/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/runner/base/fail.h"
#include "tools/runner/base/os.h"

namespace runner {
namespace {

// The largest of all systems that there are runtimes for.
constexpr uintptr_t kPage = 1 << 16;

}  // namespace

MappedFile::MappedFile(const std::string& path, const std::string& what) : path_(path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    fail(path + " can't be opened: " + last_error() + " (" + what + ").");
  }
  struct stat status = {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    fail(path + " is not a file (" + what + ").");
  }
  size_ = static_cast<uint64_t>(status.st_size);
  if (size_ > 0) {
    void* mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapped == MAP_FAILED) {
      fail(path + " can't be mapped into memory: " + last_error() + " (" + what + ").");
    }
    data_ = static_cast<const uint8_t*>(mapped);
  }
  close(file);
}

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

}  // namespace runner

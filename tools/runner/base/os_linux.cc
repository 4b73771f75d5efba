#if defined(__linux__)

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "tools/runner/base/files.h"
#include "tools/runner/base/os.h"

// In C libraries since glibc 2.28 and Android 11. Older Androids end a process that calls the kernel instead.
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags)
    __attribute__((weak));

namespace runner {
namespace {

// Of linux/fs.h.
constexpr unsigned kExchange = 2;

// The number after "name" in a file of the kernel with lines such as "VmRSS:  123 kB".
uint64_t field(const std::string& text, const char* name, uint64_t otherwise) {
  const size_t position = text.find(name);
  return position == std::string::npos
      ? otherwise
      : uint64_t{strtoul(text.c_str() + position + strlen(name), nullptr, 10)} * 1024;
}

}  // namespace

std::string own_path() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  return length <= 0 ? "" : std::string(path, static_cast<size_t>(length));
}

Memory memory_now() {
  const std::string status = text_of("/proc/self/status");
  Memory memory;
  memory.resident = field(status, "VmRSS:", 0);
  memory.anonymous = field(status, "RssAnon:", 0);
  memory.file = field(status, "RssFile:", 0);
  memory.peak = field(status, "VmHWM:", 0);
  return memory;
}

bool exchange_folders(const std::string& one, const std::string& other) {
  if (renameat2 == nullptr) {
    errno = ENOSYS;
    return false;
  }
  return renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), kExchange) == 0;
}

bool flush_to_disk(int file) {
  return fsync(file) == 0;
}

uint64_t available_memory() {
  return field(text_of("/proc/meminfo"), "MemAvailable:", UINT64_MAX);
}

}  // namespace runner

#endif

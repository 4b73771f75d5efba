#if defined(__linux__)

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "tools/runner/base/files.h"
#include "tools/runner/base/os.h"

namespace runner {
namespace {

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

bool flush_to_disk(int file) {
  return fsync(file) == 0;
}

uint64_t available_memory() {
  return field(text_of("/proc/meminfo"), "MemAvailable:", UINT64_MAX);
}

}  // namespace runner

#endif

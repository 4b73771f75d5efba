#if defined(__linux__)

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "tools/runner/base/files.h"
#include "tools/runner/base/os.h"

#if defined(__ANDROID__)
// In Android's C library, whose headers no package has.
extern "C" int __system_property_get(const char* name, char* value);
#endif

namespace runner {
namespace {

#if defined(__aarch64__)
// Bits of the kernel's AT_HWCAP (1) and AT_HWCAP2 (2), arch/arm64/include/uapi/asm/hwcap.h.
constexpr struct {
  const char* name;
  int word;
  int bit;
} kFeatures[] = {
    {"fp16", 1, 10}, {"dotprod", 1, 20}, {"sve", 1, 22}, {"sve2", 2, 1}, {"i8mm", 2, 13}, {"bf16", 2, 14}, {"sme", 2, 23},
};
#else
// Names in /proc/cpuinfo, of what the kernel lets programs use.
constexpr struct {
  const char* name;
  const char* flag;
} kFeatures[] = {
    {"avx2", " avx2 "}, {"avx512f", " avx512f "}, {"avx512vnni", " avx512_vnni "}, {"avxvnni", " avx_vnni "},
};
#endif

#if defined(__ANDROID__)
std::string property(const char* name) {
  char value[92] = "";
  const int length = __system_property_get(name, value);
  return length <= 0 ? "" : std::string(value, strnlen(value, sizeof(value)));
}
#endif

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

uint64_t total_memory() {
  return field(text_of("/proc/meminfo"), "MemTotal:", 0);
}

std::vector<std::string> processor_features() {
  std::vector<std::string> found;
#if defined(__aarch64__)
  for (const auto& feature : kFeatures) {
    const unsigned long bits = getauxval(feature.word == 1 ? AT_HWCAP : AT_HWCAP2);
    if ((bits >> feature.bit & 1) != 0) {
      found.push_back(feature.name);
    }
  }
#else
  const std::string text = text_of("/proc/cpuinfo");
  const size_t start = text.find("flags");
  const std::string flags = start == std::string::npos ? "" : text.substr(start, text.find('\n', start) - start) + " ";
  for (const auto& feature : kFeatures) {
    if (flags.find(feature.flag) != std::string::npos) {
      found.push_back(feature.name);
    }
  }
#endif
  return found;
}

#if defined(__ANDROID__)
std::string os_level() {
  return property("ro.build.version.sdk");
}

std::string soc_name() {
  return property("ro.soc.model");
}
#else
std::string os_level() {
  return "";
}

std::string soc_name() {
  return "";
}
#endif

uint64_t available_memory() {
  return field(text_of("/proc/meminfo"), "MemAvailable:", UINT64_MAX);
}

}  // namespace runner

#endif

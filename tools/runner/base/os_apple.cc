#if defined(__APPLE__)

#include <fcntl.h>
#include <mach-o/dyld.h>
#include <mach/mach.h>
#include <sys/sysctl.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>

#include "tools/runner/base/os.h"

namespace runner {

std::string own_path() {
  char path[PATH_MAX];
  uint32_t size = sizeof(path);
  char resolved[PATH_MAX];
  if (_NSGetExecutablePath(path, &size) != 0 || realpath(path, resolved) == nullptr) {
    return "";
  }
  return resolved;
}

bool flush_to_disk(int file) {
  // fsync leaves data in the disk's own memory; some file systems have only that.
  return fcntl(file, F_FULLFSYNC) == 0 || fsync(file) == 0;
}

Memory memory_now() {
  task_vm_info_data_t info = {};
  mach_msg_type_number_t count = TASK_VM_INFO_COUNT;
  Memory memory;
  if (task_info(
          mach_task_self(), TASK_VM_INFO, reinterpret_cast<task_info_t>(&info), &count) ==
      KERN_SUCCESS) {
    memory.resident = info.resident_size;
    memory.anonymous = info.internal;
    memory.file = info.external;
    memory.peak = info.resident_size_peak;
  }
  return memory;
}

uint64_t available_memory() {
  uint64_t bytes = 0;
  size_t size = sizeof(bytes);
  return sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0) == 0 ? bytes : UINT64_MAX;
}

namespace {

// A text of the kernel; "": it has none of that name.
std::string system_text(const char* name) {
  char text[256] = "";
  size_t size = sizeof(text) - 1;
  return sysctlbyname(name, text, &size, nullptr, 0) == 0 ? text : "";
}

}  // namespace

uint64_t total_memory() {
  uint64_t bytes = 0;
  size_t size = sizeof(bytes);
  return sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0) == 0 ? bytes : 0;
}

std::vector<std::string> processor_features() {
  constexpr struct {
    const char* name;
    const char* key;
  } kFeatures[] = {
      {"fp16", "hw.optional.arm.FEAT_FP16"}, {"dotprod", "hw.optional.arm.FEAT_DotProd"},
      {"i8mm", "hw.optional.arm.FEAT_I8MM"}, {"bf16", "hw.optional.arm.FEAT_BF16"},
      {"sme", "hw.optional.arm.FEAT_SME"},
  };
  std::vector<std::string> found;
  for (const auto& feature : kFeatures) {
    int value = 0;
    size_t size = sizeof(value);
    if (sysctlbyname(feature.key, &value, &size, nullptr, 0) == 0 && value != 0) {
      found.push_back(feature.name);
    }
  }
  return found;
}

std::string os_level() {
  return system_text("kern.osproductversion");
}

std::string soc_name() {
  return system_text("hw.machine");
}

}  // namespace runner

#endif

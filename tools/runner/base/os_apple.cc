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

}  // namespace runner

#endif

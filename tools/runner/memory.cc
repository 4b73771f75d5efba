#include "tools/runner/memory.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace runner {
namespace {

struct Field {
  const char* name;
  uint64_t* value;
};

// Fills in the fields of a file of the kernel's with lines like "VmRSS:  123 kB".
template <size_t Count>
void read_fields(const char* path, const Field (&fields)[Count]) {
  FILE* file = fopen(path, "r");
  char line[256];
  while (file != nullptr && fgets(line, sizeof(line), file) != nullptr) {
    for (const Field& field : fields) {
      uint64_t kib = 0;
      const size_t length = strlen(field.name);
      if (strncmp(line, field.name, length) == 0 && sscanf(line + length, "%" SCNu64, &kib) == 1) {
        *field.value = kib * 1024;
      }
    }
  }
  if (file != nullptr) {
    fclose(file);
  }
}

}  // namespace

Memory memory_now() {
  Memory memory;
  read_fields(
      "/proc/self/status",
      {{"VmRSS:", &memory.resident},
       {"RssAnon:", &memory.anonymous},
       {"RssFile:", &memory.file},
       {"VmHWM:", &memory.peak}});
  return memory;
}

uint64_t available_memory() {
  uint64_t available = UINT64_MAX;
  read_fields("/proc/meminfo", {{"MemAvailable:", &available}});
  return available;
}

}  // namespace runner

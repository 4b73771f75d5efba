#include "tools/runner/memory.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace runner {

Memory memory_now() {
  Memory memory;
  const struct {
    const char* name;
    uint64_t* value;
  } fields[] = {
      {"VmRSS:", &memory.resident},
      {"RssAnon:", &memory.anonymous},
      {"RssFile:", &memory.file},
      {"VmHWM:", &memory.peak},
  };
  FILE* status = fopen("/proc/self/status", "r");
  char line[256];
  while (status != nullptr && fgets(line, sizeof(line), status) != nullptr) {
    for (const auto& field : fields) {
      uint64_t kib = 0;
      const size_t length = strlen(field.name);
      if (strncmp(line, field.name, length) == 0 && sscanf(line + length, "%" SCNu64, &kib) == 1) {
        *field.value = kib * 1024;
      }
    }
  }
  if (status != nullptr) {
    fclose(status);
  }
  return memory;
}

}  // namespace runner

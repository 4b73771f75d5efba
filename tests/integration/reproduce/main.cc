// The smallest main: how many backends the runtime has.
#include <cstdio>

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/runtime.h>

int main() {
  executorch::runtime::runtime_init();
  printf("%zu backends\n", executorch::runtime::get_num_registered_backends());
  return 0;
}

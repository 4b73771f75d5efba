// Prints what ExecuTorch's runtime has registered after it loaded the libraries that are its arguments.

#include <cstdio>

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/kernel/operator_registry.h>

#ifndef __ANDROID__
#include <dlfcn.h>
#endif

namespace runtime = executorch::runtime;

int main(int argc, char** argv) {
#ifndef __ANDROID__
  for (int i = 1; i < argc; i++) {
    if (dlopen(argv[i], RTLD_NOW) == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
  }
#else
  (void)argv;
  if (argc > 1) return 1;  // There all is in one library.
#endif
  for (const runtime::Kernel& kernel : runtime::get_registered_kernels()) {
    std::printf("operator %s\n", kernel.name_);
  }
  for (size_t i = 0; i < runtime::get_num_registered_backends(); i++) {
    std::printf("backend %s\n", *runtime::get_backend_name(i));
  }
  return 0;
}

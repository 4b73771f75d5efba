#include "tools/runner/engine/threads.h"

#include <cstdint>
#include <string>

#include "tools/runner/base/fail.h"

// The library is part of runtimes with threads; a header for it is in some of them.
#if defined(__APPLE__)
#include <dlfcn.h>
#else
namespace executorch::extension::threadpool {
class ThreadPool final {
 public:
  __attribute__((weak)) bool _unsafe_reset_threadpool(uint32_t new_thread_count);
};
__attribute__((weak)) ThreadPool* get_threadpool();
}  // namespace executorch::extension::threadpool
#endif

namespace runner {
namespace {

#if defined(__APPLE__)
// Looked up by name: a Mach-O program has to say which library a weak symbol is in.
bool reset(int count) {
  const auto get = reinterpret_cast<void* (*)()>(
      dlsym(RTLD_DEFAULT, "_ZN10executorch9extension10threadpool14get_threadpoolEv"));
  const auto set = reinterpret_cast<bool (*)(void*, uint32_t)>(dlsym(
      RTLD_DEFAULT, "_ZN10executorch9extension10threadpool10ThreadPool24_unsafe_reset_threadpoolEj"));
  void* pool = get != nullptr && set != nullptr ? get() : nullptr;
  return pool != nullptr && set(pool, static_cast<uint32_t>(count));
}
#else
bool reset(int count) {
  namespace threadpool = executorch::extension::threadpool;
  if (threadpool::get_threadpool == nullptr) {
    return false;
  }
  threadpool::ThreadPool* pool = threadpool::get_threadpool();
  return pool != nullptr && pool->_unsafe_reset_threadpool(static_cast<uint32_t>(count));
}
#endif

}  // namespace

void set_threads(int count) {
  if (!reset(count)) {
    fail("the runtime doesn't let its threads be set to " + std::to_string(count) +
         "; leave --threads out.");
  }
}

}  // namespace runner

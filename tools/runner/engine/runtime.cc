#include "tools/runner/engine/runtime.h"

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <set>

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/kernel/operator_registry.h>
#include <executorch/runtime/platform/runtime.h>

#include "tools/runner/base/json.h"
#include "tools/runner/base/process.h"
#include "tools/runner/engine/drivers.h"

// Defined by the rules for the headers of known runtimes.
#ifndef EXECUTORCH_RUNTIME_VERSION
#define EXECUTORCH_RUNTIME_VERSION ""
#endif

// Runtimes with threads contain the library; only some contain its header.
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

using RuntimeError = executorch::runtime::Error;

const char* words(RuntimeError error) {
  switch (error) {
    case RuntimeError::InvalidState:
      return "the program or backend is in no state for it; a program whose weights are in .ptd "
             "files needs them: name them with --data, or pass the --manifest";
    case RuntimeError::NotSupported:
      return "not supported by this runtime; this includes inputs of another shape than exported";
    case RuntimeError::InvalidArgument:
      return "an argument is invalid: the inputs do not fit, or the program is damaged";
    case RuntimeError::InvalidType:
      return "a value has another type than expected";
    case RuntimeError::OperatorMissing:
      return "it uses an operator that this runtime does not have";
    case RuntimeError::NotFound:
      return "not found: constant data is missing from the data files; name all .ptd files with "
             "--data, or pass the --manifest";
    case RuntimeError::MemoryAllocationFailed:
    case RuntimeError::OutOfResources:
    case RuntimeError::DelegateMemoryAllocationFailed:
      return "memory ran out";
    case RuntimeError::AccessFailed:
      return "a file could not be read";
    case RuntimeError::InvalidProgram:
      return "the program is damaged, or of another version";
    case RuntimeError::InvalidExternalData:
      return "a data file is damaged, or does not fit the program";
    case RuntimeError::DelegateInvalidCompatibility:
      return "a backend does not accept its part of the program: damaged, or of another version";
    case RuntimeError::DelegateInvalidHandle:
      return "a backend lost its part of the program";
    default:
      return "an error inside of the runtime";
  }
}

#if defined(__APPLE__)
// Looked up by name: a Mach-O program would have to name the library of a weak symbol.
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

MakeRecorder maker = nullptr;

std::set<std::string> registered_backends() {
  std::set<std::string> backends;
  for (size_t i = 0; i < executorch::runtime::get_num_registered_backends(); ++i) {
    const auto name = executorch::runtime::get_backend_name(i);
    if (name.ok()) {
      backends.insert(*name);
    }
  }
  return backends;
}

// Programs that are loaded; kSetting: the threads are being set, which takes milliseconds.
constexpr int kSetting = -1;
std::atomic<int> loaded_programs{0};

}  // namespace

Status check(RuntimeError code, const std::string& what) {
  if (code == RuntimeError::Ok) {
    return {};
  }
  const auto number = static_cast<unsigned>(code);
  const std::string hexadecimal = {'0', 'x', "0123456789abcdef"[number >> 4 & 15],
                            "0123456789abcdef"[number & 15]};
  const std::string message = runtime_message();
  return error(what + ": " + words(code) + " (ExecuTorch error " + hexadecimal +
       (message.empty() ? "" : ": " + message) + ").");
}

Status check_backends(const executorch::runtime::MethodMeta& meta, const std::string& what) {
  for (size_t i = 0; i < meta.num_backends(); ++i) {
    const auto name = meta.get_backend_name(i);
    TRY(check(name.error(), what + ": the names of its backends cannot be read"));
    const auto* backend = executorch::runtime::get_backend_class(*name);
    if (backend == nullptr) {
      std::string list;
      for (const std::string& known : registered_backends()) {
        list += (list.empty() ? "" : ", ") + known;
      }
      return error(what + " needs the backend " + *name + ", which this runtime does not have; it has: " +
           (list.empty() ? "none" : list) + "; use a runtime with it, or lower the model for one of these.");
    }
    if (!backend->is_available()) {
      return error(what + " needs the backend " + *name + ", which does not work on this machine; install its driver or "
           "library, or lower the model for another backend.");
    }
    const std::string missing = missing_driver(*name);
    if (!missing.empty()) {
      return error(what + " needs the backend " + *name + ", which " + missing + "; install a driver, or lower the "
           "model for another backend.");
    }
  }
  return {};
}

std::string runtime_version() {
  return EXECUTORCH_RUNTIME_VERSION;
}

std::string runtime_info() {
  executorch::runtime::runtime_init();
  const std::set<std::string> backends = registered_backends();
  // An operator may have several kernels, for tensors of several types.
  std::set<std::string> operators;
  for (const auto& kernel : executorch::runtime::get_registered_kernels()) {
    operators.insert(kernel.name_);
  }
  const nlohmann::ordered_json json = {
      {"version", runtime_version()},
      {"backends", backends},
      {"operators", operators},
  };
  return json.dump(1) + "\n";
}

LoadedProgram::LoadedProgram() {
  for (int count = loaded_programs;;) {
    if (count == kSetting) {
      sched_yield();
      count = loaded_programs;
    } else if (loaded_programs.compare_exchange_weak(count, count + 1)) {
      return;
    }
  }
}

LoadedProgram::~LoadedProgram() {
  loaded_programs -= 1;
}

bool has_loaded_programs() {
  return loaded_programs > 0;
}

Status set_threads(int count) {
  int none = 0;
  if (!loaded_programs.compare_exchange_strong(none, kSetting)) {
    return error("the runtime's threads cannot be set while a program is loaded; set them first.");
  }
  const bool is_set = reset(count);
  loaded_programs = 0;
  if (!is_set) {
    return error("the runtime cannot set its threads to " + std::to_string(count) +
         "; leave --threads out.");
  }
  return {};
}

void set_recorder(MakeRecorder make) {
  maker = make;
}

Result<std::unique_ptr<Recorder>> make_recorder() {
  if (maker == nullptr) {
    return error("--etdump: this runner was built without the runtime's library for it (libexecutorch_etdump); "
         "leave it out, or use one that has it, as //tools/runner.");
  }
  return maker();
}

}  // namespace runner

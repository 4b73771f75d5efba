#include "tools/runner/engine/runtime_info.h"

#include <set>
#include <string>

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/kernel/operator_registry.h>
#include <executorch/runtime/platform/runtime.h>

#include "tools/runner/base/json.h"
#include "tools/runner/base/output.h"

// Defined by the rules, for the headers of a runtime that they know.
#ifndef EXECUTORCH_RUNTIME_VERSION
#define EXECUTORCH_RUNTIME_VERSION ""
#endif

namespace runner {

void print_runtime_info() {
  executorch::runtime::runtime_init();
  std::set<std::string> backends;
  for (size_t i = 0; i < executorch::runtime::get_num_registered_backends(); ++i) {
    const auto name = executorch::runtime::get_backend_name(i);
    if (name.ok()) {
      backends.insert(*name);
    }
  }
  // An operator may have several kernels, for tensors of several types.
  std::set<std::string> operators;
  for (const auto& kernel : executorch::runtime::get_registered_kernels()) {
    operators.insert(kernel.name_);
  }
  const nlohmann::ordered_json json = {
      {"version", EXECUTORCH_RUNTIME_VERSION},
      {"backends", backends},
      {"operators", operators},
  };
  print(json.dump(1) + "\n");
}

}  // namespace runner

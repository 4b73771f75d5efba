// Inputs and outputs of a method: as the program describes them, or in a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/executor/method_meta.h>

namespace runner {

// A tensor's type and shape, or another kind of value.
struct ValueInfo {
  const char* kind;   // "tensor", "int", "float", "bool", "string", "none", "list" or "unknown".
  std::string dtype;  // "": not a tensor.
  std::vector<int64_t> shape;
};

// With the largest shapes.
std::vector<ValueInfo> inputs_of(const executorch::runtime::MethodMeta& method);
std::vector<ValueInfo> outputs_of(const executorch::runtime::MethodMeta& method);

// With the current shapes.
std::vector<ValueInfo> infos_of(const std::vector<executorch::runtime::EValue>& values);

}  // namespace runner

// What a method takes and gives.
#pragma once

#include <string>
#include <vector>

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/executor/method_meta.h>

#include "tools/runner/base/json.h"

namespace runner {

// An input or output: a tensor's type and largest shape, or what else it is.
struct ValueInfo {
  std::string name;  // "input_0"
  std::string kind;  // "tensor", "int", "float", "bool", "string", "none" or "list"
  std::string dtype;
  std::vector<int64_t> shape;
};

std::vector<ValueInfo> inputs_of(const executorch::runtime::MethodMeta& method);
std::vector<ValueInfo> outputs_of(const executorch::runtime::MethodMeta& method);

// Of values as they are.
std::vector<ValueInfo> infos_of(
    const std::vector<executorch::runtime::EValue>& values,
    const std::string& prefix);

nlohmann::ordered_json to_json(const std::vector<ValueInfo>& values);

// "float32 (2, 16), int".
std::string to_text(const std::vector<ValueInfo>& values);

}  // namespace runner

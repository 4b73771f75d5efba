// Arrays to the runtime's values and back.
#pragma once

#include <vector>

#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/executor/method_meta.h>

#include "tools/runner/npy.h"

namespace runner {

// A method's inputs; owns their memory.
struct Inputs {
  std::vector<executorch::extension::TensorPtr> tensors;
  std::vector<executorch::runtime::EValue> values;
};

// Inputs out of .npy files, or, with no files, made up: a fixed pattern in float tensors, zeros in
// all others. `program` is named in sentences, with which the process ends if files don't fit.
Inputs make_inputs(
    const std::string& program,
    const executorch::runtime::MethodMeta& method,
    const std::vector<std::string>& files);

// An output as an array in row-major order. `name` is for the sentence with which the process ends
// if it is of a kind that .npy files don't have.
Array to_array(const executorch::runtime::EValue& value, const std::string& name);

}  // namespace runner

// Arrays to a method's inputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/executor/method_meta.h>

#include "tools/runner/tensors/array.h"

namespace runner {

// A tensor with memory of its own, for the runtime.
class OwnedTensor {
 public:
  OwnedTensor(const Array& array, const DimOrder& order);
  OwnedTensor(const OwnedTensor&) = delete;
  OwnedTensor& operator=(const OwnedTensor&) = delete;

  executorch::aten::Tensor tensor() { return executorch::aten::Tensor(&impl_); }

 private:
  std::vector<uint8_t> data_;
  std::vector<executorch::aten::SizesType> sizes_;
  DimOrder order_;
  std::vector<executorch::aten::StridesType> strides_;
  executorch::aten::TensorImpl impl_;
};

// A method's inputs; owns their memory.
struct Inputs {
  std::vector<std::unique_ptr<OwnedTensor>> tensors;
  std::vector<executorch::runtime::EValue> values;
};

// Inputs out of .npy files, or, with no files, made up: a fixed pattern in float tensors, zeros in
// all others. `title` of the method is for sentences, with which the process ends if files don't fit.
Inputs make_inputs(
    const std::string& title,
    const executorch::runtime::MethodMeta& method,
    const std::vector<std::string>& files);

}  // namespace runner

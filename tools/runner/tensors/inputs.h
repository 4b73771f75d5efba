// A method's inputs for the runtime.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/executor/method_meta.h>

#include "tools/runner/tensors/array.h"

namespace runner {

// A tensor that owns its memory. Not the runtime's TensorPtr, because apps link runtimes without extensions.
class OwnedTensor {
 public:
  OwnedTensor(const ArrayView& array, const DimOrder& order);
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

// An input of the user.
struct GivenInput {
  ArrayView array;
  std::string name;  // For errors: for example a file.
};

// An error, if the method takes another number of inputs.
Status check_input_count(const std::string& title, const executorch::runtime::MethodMeta& method, size_t count);

// Inputs for a method, whose `title` is for errors, with copies of the arrays. An error, if there are too many or too few, or if
// one does not fit.
Result<Inputs> make_inputs(
    const std::string& title,
    const executorch::runtime::MethodMeta& method,
    const std::vector<GivenInput>& given);

}  // namespace runner

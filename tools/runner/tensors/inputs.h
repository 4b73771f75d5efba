// A method's inputs: from files (.npy, .safetensors, and the bytes alone) or made up, and given to the runtime.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/executor/method_meta.h>

#include "tools/runner/tensors/array.h"

namespace runner {

// A tensor with memory of its own, for the runtime. Not its TensorPtr, as apps link runtimes without extensions.
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

// An input as a user has it.
struct GivenInput {
  Array array;
  std::string name;  // For sentences: a file, for example.
};

// Inputs for a method, whose `title` is for sentences. An error, if there are too many or too few, or if
// one doesn't fit.
Result<Inputs> make_inputs(
    const std::string& title,
    const executorch::runtime::MethodMeta& method,
    const std::vector<GivenInput>& given);

// A fixed pattern for each float tensor of a method, zeros for all else.
Result<std::vector<GivenInput>> make_up_inputs(
    const std::string& title,
    const executorch::runtime::MethodMeta& method);

// What --input names: FILE.npy; FILE.safetensors:NAME; FILE.safetensors alone, for all inputs as
// input_0, input_1, ...; FILE.bin, which has the bytes of the input's own type and largest shape.
//
// An error, if there is not one for each of the method's inputs, or if one can't be read. `title` of the method is for sentences.
Result<std::vector<GivenInput>> read_inputs(
    const std::vector<std::string>& files,
    const std::string& title,
    const executorch::runtime::MethodMeta& method);

}  // namespace runner

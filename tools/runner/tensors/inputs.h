// A method's inputs for the runtime: from files (.npy, .safetensors, plain bytes), or generated examples.
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

// An input of the user.
struct GivenInput {
  Array array;
  std::string name;  // For errors: for example a file.
};

// Inputs for a method, whose `title` is for errors. An error, if there are too many or too few, or if
// one does not fit.
Result<Inputs> make_inputs(
    const std::string& title,
    const executorch::runtime::MethodMeta& method,
    const std::vector<GivenInput>& given);

// A fixed pattern for each float tensor of a method, zeros for other inputs.
Result<std::vector<GivenInput>> example_inputs(
    const std::string& title,
    const executorch::runtime::MethodMeta& method);

// Reads the files of --input: FILE.npy; FILE.safetensors:NAME; FILE.safetensors alone, for all inputs as
// input_0, input_1, ...; FILE.bin with the bytes of the input's own type and largest shape.
//
// An error, unless there is one for each input, and all are readable. `title` of the method is for errors.
Result<std::vector<GivenInput>> read_inputs(
    const std::vector<std::string>& files,
    const std::string& title,
    const executorch::runtime::MethodMeta& method);

}  // namespace runner

// Files of inputs: .npy, .safetensors, and the bytes alone.
#pragma once

#include <string>
#include <vector>

#include <executorch/runtime/executor/method_meta.h>

#include "tools/runner/tensors/inputs.h"

namespace runner {

// What --input names: FILE.npy; FILE.safetensors:NAME; FILE.safetensors alone, for all inputs as
// input_0, input_1, ...; FILE.bin, which has the bytes of the input's own type and largest shape.
//
// Ends the process with a sentence if there is not one for each of the method's inputs, or if one
// can't be read. `title` of the method is for sentences.
std::vector<GivenInput> read_inputs(
    const std::vector<std::string>& files,
    const std::string& title,
    const executorch::runtime::MethodMeta& method);

}  // namespace runner

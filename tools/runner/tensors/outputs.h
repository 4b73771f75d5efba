// A method's outputs to arrays.
#pragma once

#include <string>
#include <vector>

#include <executorch/runtime/core/evalue.h>

#include "tools/runner/tensors/array.h"

namespace runner {

// An output as an array in row-major order. An error, which begins with `name`, if it is another kind of value.
Result<Array> to_array(const executorch::runtime::EValue& value, const std::string& name);

// Writes outputs as DIR/output_0.npy, ... ("npy"), DIR/outputs.safetensors ("safetensors") or
// DIR/output_0.bin, ... ("raw": the bytes alone); returns the files. `title` is for errors.
Result<std::vector<std::string>> write_outputs(
    const std::vector<executorch::runtime::EValue>& outputs,
    const std::string& title,
    const std::string& folder,
    const std::string& format);

}  // namespace runner

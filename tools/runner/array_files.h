// --input and --output: arrays in files, as inputs and outputs of the C interface.
#pragma once

#include <string>
#include <vector>

#include "tools/runner/api/executorch_app.h"
#include "tools/runner/base/result.h"
#include "tools/runner/tensors/array.h"

namespace runner {

struct NamedArray {
  Array array;
  std::string name;  // For errors: for example a file.
};

// A fixed pattern for each float tensor of a method, zeros for other inputs. `title` of the method is for errors.
Result<std::vector<NamedArray>> example_inputs(const std::string& title, const executorch_app_method& method);

// Reads the files of --input: FILE.npy; FILE.safetensors:NAME; FILE.safetensors alone, for all inputs as
// input_0, input_1, ...; FILE.bin with the bytes of the input's own type and largest shape.
//
// An error, unless there is one for each input, and all are readable.
Result<std::vector<NamedArray>> read_inputs(
    const std::vector<std::string>& files,
    const std::string& title,
    const executorch_app_method& method);

// Writes outputs as DIR/output_0.npy, ... ("npy"), DIR/outputs.safetensors ("safetensors") or
// DIR/output_0.bin, ... ("raw": the bytes alone); returns the files.
Result<std::vector<std::string>> write_outputs(
    const executorch_app_tensor* outputs,
    size_t count,
    const std::string& folder,
    const std::string& format);

}  // namespace runner

// .safetensors files: named tensors in row-major order.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/runner/tensors/array.h"

namespace runner {

// One of a file's tensors. Ends the process with a sentence if it is no such file, or is truncated or
// damaged, or has no tensor of that name.
Array read_safetensor(const std::string& path, const std::string& name);

// Ends the process with a sentence if the file can't be written.
void write_safetensors(
    const std::string& path,
    const std::vector<std::pair<std::string, Array>>& tensors);

}  // namespace runner

// NumPy's .npy files: arrays in row-major order.
#pragma once

#include <string>

#include "tools/runner/tensors/array.h"

namespace runner {

// Ends the process with a sentence if it is no .npy file, or none that the runner reads.
Array read_npy(const std::string& path);

// Ends the process with a sentence if the file can't be written.
void write_npy(const std::string& path, const Array& array);

}  // namespace runner

// Element types: ExecuTorch's and NumPy's names of them.
#pragma once

#include <string>

#include <executorch/runtime/core/exec_aten/exec_aten.h>

namespace runner {

struct Dtype {
  executorch::aten::ScalarType type;
  const char* name;
  const char* npy;          // In a .npy file's header, little-endian; nullptr: NumPy has none.
  const char* safetensors;  // In a .safetensors file's header.
  size_t size;              // Bytes.
};

// nullptr: not one that the runner reads and writes.
const Dtype* dtype_of(executorch::aten::ScalarType type);
const Dtype* dtype_of_npy(const std::string& npy);
const Dtype* dtype_of_safetensors(const std::string& safetensors);

// The type of `what`; ends the process with a sentence if the runner doesn't know it.
const Dtype& dtype_or_fail(executorch::aten::ScalarType type, const std::string& what);

// What the runner reads and writes, for sentences.
std::string dtype_names();

}  // namespace runner

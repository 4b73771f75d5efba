// A tensor's numbers in row-major order, outside of the runtime, and ExecuTorch's and NumPy's names of their types.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <executorch/runtime/core/exec_aten/exec_aten.h>

#include "tools/runner/base/result.h"

namespace runner {

struct Dtype {
  executorch::aten::ScalarType type;
  const char* name;
  const char* npy;          // In a .npy file's header, little-endian; nullptr: NumPy has none.
  const char* safetensors;  // In a .safetensors file's header.
  size_t size;              // Bytes.
};

// nullptr: the runner does not support it.
const Dtype* dtype_of(executorch::aten::ScalarType type);
const Dtype* dtype_of_name(const std::string& name);
const Dtype* dtype_of_npy(const std::string& npy);
const Dtype* dtype_of_safetensors(const std::string& safetensors);

// The type of `what`; an error, if the runner does not support it.
Result<const Dtype*> known_dtype(executorch::aten::ScalarType type, const std::string& what);

// The supported types, for errors.
std::string dtype_names();

// An array whose data are elsewhere.
struct ArrayView {
  const Dtype* dtype = nullptr;
  std::vector<int64_t> shape;
  const uint8_t* data = nullptr;
  size_t size = 0;  // Bytes.
};

struct Array {
  const Dtype* dtype = nullptr;
  std::vector<int64_t> shape;
  std::vector<uint8_t> data;

  ArrayView view() const { return {dtype, shape, data.data(), data.size()}; }
};

// A number as an array without dimensions.
template <class T>
Array scalar_array(T value, executorch::aten::ScalarType type) {
  Array array{dtype_of(type), {}, std::vector<uint8_t>(sizeof(T))};
  memcpy(array.data.data(), &value, sizeof(T));
  return array;
}

// The maximum dimensions of the runtime's tensors (kTensorDimensionLimit).
constexpr size_t kMaxDimensions = 16;

// "(2, 16)".
std::string shape_text(const std::vector<int64_t>& shape);

// Bytes of a tensor; -1: too large for a number.
int64_t bytes_of(const Dtype& dtype, const std::vector<int64_t>& shape);

// A tensor's dimensions, the one with the largest stride first.
using DimOrder = std::vector<uint8_t>;

// Tells whether it contains each dimension of a tensor of that rank once.
bool is_order(const DimOrder& order, size_t rank);

// Writes the bytes of a row-major array to `to` in another order of dimensions, or the reverse.
void to_order(const ArrayView& array, const DimOrder& order, uint8_t* to);
void from_order(const uint8_t* from, const DimOrder& order, Array& array);

}  // namespace runner

// A tensor's numbers in row-major order, outside of the runtime.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tools/runner/tensors/dtype.h"

namespace runner {

struct Array {
  const Dtype* dtype = nullptr;
  std::vector<int64_t> shape;
  std::vector<uint8_t> data;
};

// A number as an array without dimensions.
template <class T>
Array scalar_array(T value, executorch::aten::ScalarType type) {
  Array array{dtype_of(type), {}, std::vector<uint8_t>(sizeof(T))};
  memcpy(array.data.data(), &value, sizeof(T));
  return array;
}

// "(2, 16)".
std::string shape_text(const std::vector<int64_t>& shape);

// Bytes of a tensor; -1: more than there can be.
int64_t bytes_of(const Dtype& dtype, const std::vector<int64_t>& shape);

// A tensor's dimensions, the one with the largest stride first.
using DimOrder = std::vector<uint8_t>;

// Whether it has each dimension of a tensor of that rank once.
bool is_order(const DimOrder& order, size_t rank);

// Writes the bytes of a row-major array to `to` in another order of dimensions, or brings them back.
void to_order(const Array& array, const DimOrder& order, uint8_t* to);
void from_order(const uint8_t* from, const DimOrder& order, Array& array);

}  // namespace runner

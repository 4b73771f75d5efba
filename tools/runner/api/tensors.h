// Arrays as tensors of the C interface, and back, without copies.
#pragma once

#include "tools/runner/api/executorch_app.h"
#include "tools/runner/tensors/array.h"

namespace runner {

// Valid as long as both. `name` may be nullptr.
inline executorch_app_tensor tensor_of(const Array& array, const char* name) {
  return {array.dtype->name, array.shape.data(), array.shape.size(), array.data.data(), array.data.size(), name};
}

// Of a dtype that the runner knows.
inline ArrayView view_of(const executorch_app_tensor& tensor) {
  return {
      dtype_of_name(tensor.dtype), {tensor.shape, tensor.shape + tensor.rank},
      static_cast<const uint8_t*>(tensor.data), tensor.size};
}

}  // namespace runner

#include "tools/runner/tensors/outputs.h"

#include "tools/runner/base/result.h"

namespace runner {
using executorch::aten::ScalarType;
using executorch::runtime::EValue;

Result<Array> to_array(const EValue& value, const std::string& name) {
  if (value.isInt()) {
    return scalar_array(value.toInt(), ScalarType::Long);
  }
  if (value.isDouble()) {
    return scalar_array(value.toDouble(), ScalarType::Double);
  }
  if (value.isBool()) {
    return scalar_array(value.toBool(), ScalarType::Bool);
  }
  if (value.isString() || value.isNone()) {
    Array bytes;
    bytes.dtype = dtype_of(ScalarType::Byte);
    if (value.isString()) {
      const std::string_view text = value.toString();
      bytes.data.assign(text.begin(), text.end());
    }
    bytes.shape = {static_cast<int64_t>(bytes.data.size())};
    return bytes;
  }
  if (!value.isTensor()) {
    return error(name + " is neither a tensor nor a number or a text; there is no array of it.");
  }
  const executorch::aten::Tensor tensor = value.toTensor();
  Array array;
  array.dtype = TRY(known_dtype(tensor.scalar_type(), name));
  array.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
  array.data.resize(tensor.nbytes());
  const auto* data = static_cast<const uint8_t*>(tensor.const_data_ptr());
  if (data == nullptr && !array.data.empty()) {
    return error(name + " has no data.");
  }
  from_order(data, DimOrder(tensor.dim_order().begin(), tensor.dim_order().end()), array);
  return array;
}

}  // namespace runner

#include "tools/runner/tensors/value_info.h"

#include "tools/runner/tensors/array.h"

namespace runner {
namespace {

using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::Tag;
using executorch::runtime::TensorInfo;

const char* name_of(Tag tag) {
  switch (tag) {
    case Tag::Tensor:
      return "tensor";
    case Tag::Int:
      return "int";
    case Tag::Double:
      return "float";
    case Tag::Bool:
      return "bool";
    case Tag::String:
      return "string";
    case Tag::None:
      return "none";
    default:
      return "list";
  }
}

std::string dtype_name(executorch::aten::ScalarType type) {
  const Dtype* dtype = dtype_of(type);
  return dtype != nullptr ? dtype->name
                          : "dtype number " + std::to_string(static_cast<int>(type));
}

template <class Tensor>
ValueInfo tensor_info(const Tensor& tensor) {
  return {"tensor", dtype_name(tensor.scalar_type()), {tensor.sizes().begin(), tensor.sizes().end()}};
}

ValueInfo value_info(
    const executorch::runtime::Result<Tag>& tag,
    const executorch::runtime::Result<TensorInfo>& tensor) {
  return tensor.ok() ? tensor_info(*tensor) : ValueInfo{tag.ok() ? name_of(*tag) : "unknown", "", {}};
}

}  // namespace

std::vector<ValueInfo> inputs_of(const MethodMeta& method) {
  std::vector<ValueInfo> infos;
  for (size_t i = 0; i < method.num_inputs(); ++i) {
    infos.push_back(value_info(method.input_tag(i), method.input_tensor_meta(i)));
  }
  return infos;
}

std::vector<ValueInfo> outputs_of(const MethodMeta& method) {
  std::vector<ValueInfo> infos;
  for (size_t i = 0; i < method.num_outputs(); ++i) {
    infos.push_back(value_info(method.output_tag(i), method.output_tensor_meta(i)));
  }
  return infos;
}

std::vector<ValueInfo> infos_of(const std::vector<EValue>& values) {
  std::vector<ValueInfo> infos;
  for (const EValue& value : values) {
    infos.push_back(value.isTensor() ? tensor_info(value.toTensor()) : ValueInfo{name_of(value.tag), "", {}});
  }
  return infos;
}

}  // namespace runner

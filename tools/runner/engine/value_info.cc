#include "tools/runner/engine/value_info.h"

#include "tools/runner/tensors/array.h"

namespace runner {
namespace {

using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::Result;
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
ValueInfo tensor_info(const std::string& name, const Tensor& tensor) {
  return {name, "tensor", dtype_name(tensor.scalar_type()),
          {tensor.sizes().begin(), tensor.sizes().end()}};
}

ValueInfo value_info(
    const std::string& name,
    const Result<Tag>& tag,
    const Result<TensorInfo>& tensor) {
  if (tensor.ok()) {
    return tensor_info(name, *tensor);
  }
  return {name, tag.ok() ? name_of(*tag) : "unknown", "", {}};
}

}  // namespace

std::vector<ValueInfo> inputs_of(const MethodMeta& method) {
  std::vector<ValueInfo> values;
  for (size_t i = 0; i < method.num_inputs(); ++i) {
    const std::string name = "input_" + std::to_string(i);
    values.push_back(value_info(name, method.input_tag(i), method.input_tensor_meta(i)));
  }
  return values;
}

std::vector<ValueInfo> outputs_of(const MethodMeta& method) {
  std::vector<ValueInfo> values;
  for (size_t i = 0; i < method.num_outputs(); ++i) {
    const std::string name = "output_" + std::to_string(i);
    values.push_back(value_info(name, method.output_tag(i), method.output_tensor_meta(i)));
  }
  return values;
}

std::vector<ValueInfo> infos_of(const std::vector<EValue>& values, const std::string& prefix) {
  std::vector<ValueInfo> infos;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string name = prefix + std::to_string(i);
    infos.push_back(
        values[i].isTensor() ? tensor_info(name, values[i].toTensor())
                             : ValueInfo{name, name_of(values[i].tag), "", {}});
  }
  return infos;
}

nlohmann::ordered_json to_json(const std::vector<ValueInfo>& values) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ValueInfo& value : values) {
    nlohmann::ordered_json json = {{"name", value.name}, {"kind", value.kind}};
    if (!value.dtype.empty()) {
      json["dtype"] = value.dtype;
      json["shape"] = value.shape;
    }
    list.push_back(json);
  }
  return list;
}

std::string to_text(const std::vector<ValueInfo>& values) {
  std::string text;
  for (const ValueInfo& value : values) {
    text += text.empty() ? "" : ", ";
    text += value.dtype.empty() ? value.kind : value.dtype + " " + shape_text(value.shape);
  }
  return text;
}

}  // namespace runner

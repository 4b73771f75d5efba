#include "tools/runner/tensors/outputs.h"

#include "tools/runner/base/fail.h"
#include "tools/runner/base/output.h"
#include "tools/runner/tensors/npy.h"
#include "tools/runner/tensors/safetensors.h"

namespace runner {
using executorch::aten::ScalarType;
using executorch::runtime::EValue;

Array to_array(const EValue& value, const std::string& name) {
  if (value.isInt()) {
    return scalar_array(value.toInt(), ScalarType::Long);
  }
  if (value.isDouble()) {
    return scalar_array(value.toDouble(), ScalarType::Double);
  }
  if (value.isBool()) {
    return scalar_array(value.toBool(), ScalarType::Bool);
  }
  if (!value.isTensor()) {
    fail(name + " is neither a tensor nor a number; no file of outputs has anything else.");
  }
  const executorch::aten::Tensor tensor = value.toTensor();
  Array array;
  array.dtype = &dtype_or_fail(tensor.scalar_type(), name);
  array.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
  array.data.resize(tensor.nbytes());
  const auto* data = static_cast<const uint8_t*>(tensor.const_data_ptr());
  if (data == nullptr && !array.data.empty()) {
    fail(name + " has no data.");
  }
  from_order(data, DimOrder(tensor.dim_order().begin(), tensor.dim_order().end()), array);
  return array;
}

std::vector<std::string> write_outputs(
    const std::vector<EValue>& outputs,
    const std::string& title,
    const std::string& folder,
    const std::string& format) {
  make_folders(folder);
  std::vector<std::pair<std::string, Array>> arrays;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = "output_" + std::to_string(i);
    arrays.emplace_back(name, to_array(outputs[i], title + ": " + name));
  }
  if (format == "safetensors") {
    const std::string path = folder + "/outputs.safetensors";
    write_safetensors(path, arrays);
    return {path};
  }
  std::vector<std::string> files;
  for (const auto& [name, array] : arrays) {
    const bool is_raw = format == "raw";
    files.push_back(folder + "/" + name + (is_raw ? ".bin" : ".npy"));
    if (is_raw) {
      write_file(
          files.back(), {{reinterpret_cast<const char*>(array.data.data()), array.data.size()}});
    } else {
      write_npy(files.back(), array);
    }
  }
  return files;
}

}  // namespace runner

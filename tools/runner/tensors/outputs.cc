#include "tools/runner/tensors/outputs.h"

#include "tools/runner/base/files.h"
#include "tools/runner/base/os.h"
#include "tools/runner/base/result.h"
#include "tools/runner/tensors/formats.h"

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
  if (!value.isTensor()) {
    return error(name + " is neither a tensor nor a number; no file of outputs has anything else.");
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

namespace {

std::string_view bytes_of(const Array& array) {
  return {reinterpret_cast<const char*>(array.data.data()), array.data.size()};
}

// A damaged program may return one large tensor many times.
Status check_size(const std::vector<EValue>& outputs, const std::string& title) {
  uint64_t left = available_memory();
  for (const EValue& output : outputs) {
    const uint64_t size = output.isTensor() ? output.toTensor().nbytes() : 0;
    if (size > left) {
      return error(title + ": its outputs have more bytes than there is memory; the program is damaged, or too big.");
    }
    left -= size;
  }
  return {};
}

Result<std::vector<std::string>> write(
    const std::vector<std::pair<std::string, Array>>& arrays,
    const std::string& folder,
    const std::string& format) {
  OutputFiles files;
  std::vector<std::string> paths;
  if (format == "safetensors") {
    std::vector<std::pair<std::string, const Array*>> tensors;
    for (const auto& [name, array] : arrays) {
      tensors.emplace_back(name, &array);
    }
    paths.push_back(folder + "/outputs.safetensors");
    TRY(files.start(paths.back()));
    TRY(files.add(safetensors_head(tensors)));
  }
  for (const auto& [name, array] : arrays) {
    if (format != "safetensors") {
      const bool is_raw = format == "raw";
      paths.push_back(folder + "/" + name + (is_raw ? ".bin" : ".npy"));
      const std::string head = is_raw ? "" : TRY(npy_head(paths.back(), array));
      TRY(files.start(paths.back()));
      TRY(files.add(head));
    }
    TRY(files.add(bytes_of(array)));
  }
  TRY(files.commit());
  return paths;
}

}  // namespace

Result<std::vector<std::string>> write_outputs(
    const std::vector<EValue>& outputs,
    const std::string& title,
    const std::string& folder,
    const std::string& format) {
  TRY(check_size(outputs, title));
  TRY(make_folders(folder));
  std::vector<std::pair<std::string, Array>> arrays;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = "output_" + std::to_string(i);
    Array array = TRY(to_array(outputs[i], title + ": " + name));
    arrays.emplace_back(name, std::move(array));
  }
  return write(arrays, folder, format);
}

}  // namespace runner

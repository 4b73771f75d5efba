#include "tools/runner/array_files.h"

#include <cstring>
#include <map>

#include "tools/runner/api/tensors.h"
#include "tools/runner/base/files.h"
#include "tools/runner/base/os.h"
#include "tools/runner/tensors/formats.h"

namespace runner {
namespace {

using executorch::aten::ScalarType;

constexpr char kSafetensors[] = ".safetensors";
constexpr char kRaw[] = ".bin";

// 0, 1/8, ... 7/8, -1, -7/8, ... -1/8, 0, ...: exact in every float type.
double pattern(size_t index) {
  return static_cast<double>(static_cast<int>((index + 8) % 16) - 8) / 8.0;
}

void fill_with_pattern(Array& array) {
  for (size_t i = 0; i < array.data.size() / array.dtype->size; ++i) {
    uint8_t* to = array.data.data() + i * array.dtype->size;
    const double value = pattern(i);
    const float single = static_cast<float>(value);
    const executorch::aten::Half half(single);
    switch (array.dtype->type) {
      case ScalarType::Float:
        memcpy(to, &single, sizeof(single));
        break;
      case ScalarType::Half:
        memcpy(to, &half, sizeof(half));
        break;
      case ScalarType::Double:
        memcpy(to, &value, sizeof(value));
        break;
      default:
        return;
    }
  }
}

// An array of a tensor's type and shape, without data.
Result<Array> empty_array(const executorch_app_value& value, const std::string& what) {
  Array array;
  array.dtype = dtype_of_name(value.dtype);
  if (array.dtype == nullptr) {
    return error(
        what + " has a dtype that the runner does not know (" + value.dtype + "), expected one of " + dtype_names() +
        ".");
  }
  array.shape.assign(value.shape, value.shape + value.rank);
  return array;
}

Result<Array> example_array(const executorch_app_value& value, const std::string& what, uint64_t& left) {
  if (value.dtype == nullptr) {
    const std::string kind = value.kind;
    return kind == "float" ? scalar_array(0.0, ScalarType::Double)
        : kind == "bool"   ? scalar_array(false, ScalarType::Bool)
                           : scalar_array(int64_t{0}, ScalarType::Long);
  }
  Array array = TRY(empty_array(value, what));
  const int64_t size = bytes_of(*array.dtype, array.shape);
  if (size < 0 || static_cast<uint64_t>(size) > left) {
    return error(what + " would need " + std::to_string(size) +
         " bytes, more than are free; the program is damaged, or too big.");
  }
  left -= static_cast<uint64_t>(size);
  array.data.resize(static_cast<size_t>(size));
  fill_with_pattern(array);
  return array;
}

// The bytes of an input's own type and shape.
Result<Array> read_raw(const std::string& path, const executorch_app_value& value, size_t index) {
  if (value.dtype == nullptr) {
    return error(path + " is for input " + std::to_string(index) +
         ", which is not a tensor; pass it as a .npy file.");
  }
  const MappedFile file = TRY(MappedFile::open(path, "an input"));
  Array array = TRY(empty_array(value, path));
  const int64_t expected = bytes_of(*array.dtype, array.shape);
  if (expected < 0 || static_cast<uint64_t>(expected) != file.size()) {
    return error(path + " has " + std::to_string(file.size()) + " bytes, expected " +
         std::to_string(expected) + ": " + array.dtype->name + " " + shape_text(array.shape) + ".");
  }
  array.data.assign(file.data(), file.data() + file.size());
  return array;
}

// Files of several inputs by path, each read once.
using Open = std::map<std::string, SafetensorsFile>;

Result<Array> read_input(const std::string& given, const executorch_app_value& value, size_t index, Open& open) {
  const size_t name = given.rfind(std::string(kSafetensors) + ":");
  if (name != std::string::npos) {
    const size_t end = name + sizeof(kSafetensors) - 1;
    const std::string path = given.substr(0, end);
    auto file = open.find(path);
    if (file == open.end()) {
      file = open.emplace(path, TRY(SafetensorsFile::open(path))).first;
    }
    return file->second.tensor(given.substr(end + 1));
  }
  return ends_with(given, kRaw) ? read_raw(given, value, index) : read_npy(given);
}

}  // namespace

Result<std::vector<NamedArray>> example_inputs(const std::string& title, const executorch_app_method& method) {
  std::vector<NamedArray> inputs;
  // For all inputs: a damaged program may use one large tensor many times, and each input is copied.
  uint64_t left = available_memory() / 2;
  for (size_t i = 0; i < method.input_count; ++i) {
    const std::string name = "input " + std::to_string(i);
    Array array = TRY(example_array(method.inputs[i], title + ", " + name, left));
    inputs.push_back({std::move(array), name});
  }
  return inputs;
}

Result<std::vector<NamedArray>> read_inputs(
    const std::vector<std::string>& files,
    const std::string& title,
    const executorch_app_method& method) {
  std::vector<std::string> each = files;
  if (files.size() == 1 && ends_with(files[0], kSafetensors)) {
    each.clear();
    for (size_t i = 0; i < method.input_count; ++i) {
      each.push_back(files[0] + ":input_" + std::to_string(i));
    }
  }
  if (each.size() != method.input_count) {
    return error(title + " takes " + std::to_string(method.input_count) + " inputs, got " +
         std::to_string(each.size()) + " with --input.");
  }
  std::vector<NamedArray> inputs;
  Open open;
  for (size_t i = 0; i < each.size(); ++i) {
    Array array = TRY(read_input(each[i], method.inputs[i], i, open));
    inputs.push_back({std::move(array), each[i]});
  }
  return inputs;
}

Result<std::vector<std::string>> write_outputs(
    const executorch_app_tensor* outputs,
    size_t count,
    const std::string& folder,
    const std::string& format) {
  std::vector<std::pair<std::string, ArrayView>> arrays;
  for (size_t i = 0; i < count; ++i) {
    arrays.emplace_back("output_" + std::to_string(i), view_of(outputs[i]));
  }
  TRY(make_folders(folder));
  OutputFiles files;
  std::vector<std::string> paths;
  if (format == "safetensors") {
    paths.push_back(folder + "/outputs.safetensors");
    TRY(files.start(paths.back()));
    TRY(files.add(safetensors_head(arrays)));
  }
  for (const auto& [name, array] : arrays) {
    if (format != "safetensors") {
      const bool is_raw = format == "raw";
      paths.push_back(folder + "/" + name + (is_raw ? ".bin" : ".npy"));
      const std::string head = is_raw ? "" : TRY(npy_head(paths.back(), array));
      TRY(files.start(paths.back()));
      TRY(files.add(head));
    }
    TRY(files.add({reinterpret_cast<const char*>(array.data), array.size}));
  }
  TRY(files.commit());
  return paths;
}

}  // namespace runner

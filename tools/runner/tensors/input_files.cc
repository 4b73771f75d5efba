#include "tools/runner/tensors/input_files.h"

#include "tools/runner/base/fail.h"
#include "tools/runner/base/mapped_file.h"
#include "tools/runner/base/paths.h"
#include "tools/runner/tensors/npy.h"
#include "tools/runner/tensors/safetensors.h"

namespace runner {
namespace {

using executorch::runtime::MethodMeta;

constexpr char kSafetensors[] = ".safetensors";
constexpr char kRaw[] = ".bin";

// The bytes of an input's own type and shape.
Array read_raw(const std::string& path, const MethodMeta& method, size_t index) {
  const auto info = method.input_tensor_meta(index);
  if (!info.ok()) {
    fail(path + " is for input " + std::to_string(index) +
         ", which is no tensor; give it as a .npy file.");
  }
  const MappedFile file(path, "an input");
  Array array;
  array.dtype = &dtype_or_fail(info->scalar_type(), path);
  array.shape.assign(info->sizes().begin(), info->sizes().end());
  const int64_t wanted = bytes_of(*array.dtype, array.shape);
  if (wanted < 0 || static_cast<uint64_t>(wanted) != file.size()) {
    fail(path + " has " + std::to_string(file.size()) + " bytes, wanted " +
         std::to_string(wanted) + ": " + array.dtype->name + " " + shape_text(array.shape) + ".");
  }
  array.data.assign(file.data(), file.data() + file.size());
  return array;
}

Array read_input(const std::string& given, const MethodMeta& method, size_t index) {
  const size_t name = given.rfind(std::string(kSafetensors) + ":");
  if (name != std::string::npos) {
    const size_t end = name + sizeof(kSafetensors) - 1;
    return read_safetensor(given.substr(0, end), given.substr(end + 1));
  }
  return ends_with(given, kRaw) ? read_raw(given, method, index) : read_npy(given);
}

}  // namespace

std::vector<GivenInput> read_inputs(
    const std::vector<std::string>& files,
    const std::string& title,
    const MethodMeta& method) {
  std::vector<std::string> each = files;
  if (files.size() == 1 && ends_with(files[0], kSafetensors)) {
    each.clear();
    for (size_t i = 0; i < method.num_inputs(); ++i) {
      each.push_back(files[0] + ":input_" + std::to_string(i));
    }
  }
  if (each.size() != method.num_inputs()) {
    fail(title + " takes " + std::to_string(method.num_inputs()) + " inputs, got " +
         std::to_string(each.size()) + " with --input.");
  }
  std::vector<GivenInput> inputs;
  for (size_t i = 0; i < each.size(); ++i) {
    inputs.push_back({read_input(each[i], method, i), each[i]});
  }
  return inputs;
}

}  // namespace runner

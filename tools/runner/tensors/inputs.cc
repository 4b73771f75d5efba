#include "tools/runner/tensors/inputs.h"

#include <cstring>
#include <map>

#include "tools/runner/base/files.h"
#include "tools/runner/base/os.h"
#include "tools/runner/base/result.h"
#include "tools/runner/tensors/formats.h"

namespace runner {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::Tag;
using executorch::runtime::TensorInfo;

Status check_fits(const Array& array, const TensorInfo& info, const std::string& what) {
  const Dtype& expected = *TRY(known_dtype(info.scalar_type(), what));
  std::vector<int64_t> bounds(info.sizes().begin(), info.sizes().end());
  bool fits = array.dtype->type == expected.type && array.shape.size() == bounds.size();
  for (size_t d = 0; fits && d < bounds.size(); ++d) {
    fits = array.shape[d] <= bounds[d];
  }
  if (!fits) {
    return error(what + " is " + array.dtype->name + " " + shape_text(array.shape) + ", expected " +
         expected.name + " " + shape_text(bounds) + (bounds.empty() ? "." : " at most."));
  }
  return {};
}

Status
add_tensor(Inputs& inputs, const Array& array, const TensorInfo& info, const std::string& what) {
  const DimOrder order(info.dim_order().begin(), info.dim_order().end());
  if (!is_order(order, array.shape.size())) {
    return error(what + " has an order of dimensions that makes no sense; the program is damaged.");
  }
  inputs.tensors.push_back(std::make_unique<OwnedTensor>(array, order));
  inputs.values.emplace_back(inputs.tensors.back()->tensor());
  return {};
}

template <class T>
Result<T> scalar_of(const Array& array, ScalarType type, const std::string& what) {
  T value{};
  if (array.dtype->type != type || array.data.size() != sizeof(T)) {
    return error(what + " is " + array.dtype->name + " " + shape_text(array.shape) + ", expected one " +
         dtype_of(type)->name + ".");
  }
  memcpy(&value, array.data.data(), sizeof(T));
  return value;
}

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

Result<Array> tensor_of(const TensorInfo& info, const std::string& what, uint64_t& left) {
  Array array;
  array.dtype = TRY(known_dtype(info.scalar_type(), what));
  for (const int32_t size : info.sizes()) {
    array.shape.push_back(size);
  }
  if (info.nbytes() > left) {
    return error(what + " would need " + std::to_string(info.nbytes()) +
         " bytes, more than are free; the program is damaged, or too big.");
  }
  left -= info.nbytes();
  array.data.resize(info.nbytes());
  fill_with_pattern(array);
  return array;
}

Array zero(ScalarType type) {
  Array array;
  array.dtype = dtype_of(type);
  array.data.resize(array.dtype->size);
  return array;
}

Result<Array> example_array(const MethodMeta& method, size_t index, const std::string& what, uint64_t& left) {
  const auto tag = method.input_tag(index);
  const auto info = method.input_tensor_meta(index);
  if (info.ok()) {
    return tensor_of(*info, what, left);
  }
  if (tag.ok() && *tag == Tag::Double) {
    return zero(ScalarType::Double);
  }
  return zero(tag.ok() && *tag == Tag::Bool ? ScalarType::Bool : ScalarType::Long);
}

using executorch::runtime::MethodMeta;

constexpr char kSafetensors[] = ".safetensors";
constexpr char kRaw[] = ".bin";

// The bytes of an input's own type and shape.
Result<Array> read_raw(const std::string& path, const MethodMeta& method, size_t index) {
  const auto info = method.input_tensor_meta(index);
  if (!info.ok()) {
    return error(path + " is for input " + std::to_string(index) +
         ", which is not a tensor; pass it as a .npy file.");
  }
  const MappedFile file = TRY(MappedFile::open(path, "an input"));
  Array array;
  array.dtype = TRY(known_dtype(info->scalar_type(), path));
  array.shape.assign(info->sizes().begin(), info->sizes().end());
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

Result<Array> read_input(const std::string& given, const MethodMeta& method, size_t index, Open& open) {
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
  return ends_with(given, kRaw) ? read_raw(given, method, index) : read_npy(given);
}

}  // namespace

OwnedTensor::OwnedTensor(const Array& array, const DimOrder& order)
    : data_(array.data.size()),
      sizes_(array.shape.begin(), array.shape.end()),
      order_(order),
      strides_(array.shape.size()),
      impl_(
          array.dtype->type,
          static_cast<ssize_t>(sizes_.size()),
          sizes_.data(),
          data_.data(),
          order_.data(),
          strides_.data()) {
  to_order(array, order_, data_.data());
  executorch::aten::StridesType stride = 1;
  for (size_t i = order_.size(); i-- > 0;) {
    strides_[order_[i]] = stride;
    stride *= sizes_[order_[i]];
  }
}

Result<Inputs> make_inputs(
    const std::string& title,
    const MethodMeta& method,
    const std::vector<GivenInput>& given) {
  if (given.size() != method.num_inputs()) {
    return error(title + " takes " + std::to_string(method.num_inputs()) + " inputs, got " +
         std::to_string(given.size()) + ".");
  }
  Inputs inputs;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string what = given[i].name + " for " + title;
    const Array& array = given[i].array;
    const auto tag = method.input_tag(i);
    const auto info = method.input_tensor_meta(i);
    if (tag.ok() && *tag == Tag::Int) {
      inputs.values.emplace_back(TRY(scalar_of<int64_t>(array, ScalarType::Long, what)));
    } else if (tag.ok() && *tag == Tag::Double) {
      inputs.values.emplace_back(TRY(scalar_of<double>(array, ScalarType::Double, what)));
    } else if (tag.ok() && *tag == Tag::Bool) {
      inputs.values.emplace_back(TRY(scalar_of<bool>(array, ScalarType::Bool, what)));
    } else if (info.ok()) {
      TRY(check_fits(array, *info, what));
      TRY(add_tensor(inputs, array, *info, what));
    } else {
      return error(what + " is neither a tensor nor a number; the runner cannot generate it.");
    }
  }
  return inputs;
}

Result<std::vector<GivenInput>> example_inputs(const std::string& title, const MethodMeta& method) {
  std::vector<GivenInput> inputs;
  // For all inputs: a damaged program may use one large tensor many times, and each input is copied.
  uint64_t left = available_memory() / 2;
  for (size_t i = 0; i < method.num_inputs(); ++i) {
    const std::string name = "input " + std::to_string(i);
    Array array = TRY(example_array(method, i, title + ", " + name, left));
    inputs.push_back({std::move(array), name});
  }
  return inputs;
}

Result<std::vector<GivenInput>> read_inputs(
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
    return error(title + " takes " + std::to_string(method.num_inputs()) + " inputs, got " +
         std::to_string(each.size()) + " with --input.");
  }
  std::vector<GivenInput> inputs;
  Open open;
  for (size_t i = 0; i < each.size(); ++i) {
    Array array = TRY(read_input(each[i], method, i, open));
    inputs.push_back({std::move(array), each[i]});
  }
  return inputs;
}

}  // namespace runner

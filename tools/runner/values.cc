#include "tools/runner/values.h"

#include <cstring>

#include "tools/runner/fail.h"
#include "tools/runner/memory.h"

namespace runner {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::Tag;
using executorch::runtime::TensorInfo;

using DimOrder = std::vector<executorch::aten::DimOrderType>;

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  }
  return "(" + text + ")";
}

// Copies between row-major order and the order of dimensions that a tensor has in memory.
void reorder(
    const std::vector<int64_t>& shape,
    const DimOrder& dim_order,
    size_t element,
    const uint8_t* from,
    uint8_t* to,
    bool to_row_major) {
  const size_t rank = shape.size();
  std::vector<size_t> strides(rank);
  size_t count = 1;
  for (size_t i = rank; i-- > 0;) {
    strides[dim_order[i]] = count;
    count *= static_cast<size_t>(shape[dim_order[i]]);
  }
  std::vector<int64_t> at(rank);
  for (size_t row_major = 0; row_major < count; ++row_major) {
    size_t ordered = 0;
    for (size_t d = 0; d < rank; ++d) {
      ordered += static_cast<size_t>(at[d]) * strides[d];
    }
    const size_t source = to_row_major ? ordered : row_major;
    const size_t target = to_row_major ? row_major : ordered;
    memcpy(to + target * element, from + source * element, element);
    for (size_t d = rank; d-- > 0 && ++at[d] == shape[d];) {
      at[d] = 0;
    }
  }
}

bool is_row_major(const DimOrder& dim_order) {
  for (size_t i = 0; i < dim_order.size(); ++i) {
    if (dim_order[i] != i) {
      return false;
    }
  }
  return true;
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

const Dtype& supported(ScalarType type, const std::string& what) {
  const Dtype* dtype = dtype_of(type);
  if (dtype == nullptr) {
    fail(what + " has a dtype that the runner doesn't know (number " +
         std::to_string(static_cast<int>(type)) + "), wanted one of " + dtype_names() + ".");
  }
  return *dtype;
}

Array made_up(const TensorInfo& info, const std::string& what) {
  Array array;
  array.dtype = &supported(info.scalar_type(), what);
  for (const int32_t size : info.sizes()) {
    array.shape.push_back(size);
  }
  if (info.nbytes() > available_memory()) {
    fail(what + " would need " + std::to_string(info.nbytes()) +
         " bytes, more than are free; the program is damaged, or too big.");
  }
  array.data.resize(info.nbytes());
  fill_with_pattern(array);
  return array;
}

void check_fits(const Array& array, const TensorInfo& info, const std::string& what) {
  const Dtype& wanted = supported(info.scalar_type(), what);
  std::vector<int64_t> bounds(info.sizes().begin(), info.sizes().end());
  bool fits = array.dtype->type == wanted.type && array.shape.size() == bounds.size();
  for (size_t d = 0; fits && d < bounds.size(); ++d) {
    fits = array.shape[d] <= bounds[d];
  }
  if (!fits) {
    fail(what + " is " + array.dtype->name + " " + shape_text(array.shape) + ", wanted " +
         wanted.name + " " + shape_text(bounds) + (bounds.empty() ? "." : " at most."));
  }
}

void add_tensor(Inputs& inputs, const Array& array, const TensorInfo& info) {
  const DimOrder dim_order(info.dim_order().begin(), info.dim_order().end());
  std::vector<uint8_t> data(array.data.size());
  if (is_row_major(dim_order)) {
    data = array.data;
  } else {
    reorder(array.shape, dim_order, array.dtype->size, array.data.data(), data.data(), false);
  }
  std::vector<executorch::aten::SizesType> sizes(array.shape.begin(), array.shape.end());
  inputs.tensors.push_back(executorch::extension::make_tensor_ptr(
      std::move(sizes), std::move(data), dim_order, {}, array.dtype->type));
  inputs.values.emplace_back(*inputs.tensors.back());
}

template <class T>
T scalar_of(const Array* array, ScalarType type, const std::string& what) {
  T value{};
  if (array == nullptr) {
    return value;
  }
  if (array->dtype->type != type || array->data.size() != sizeof(T)) {
    fail(what + " is " + array->dtype->name + " " + shape_text(array->shape) + ", wanted one " +
         dtype_of(type)->name + ".");
  }
  memcpy(&value, array->data.data(), sizeof(T));
  return value;
}

template <class T>
Array array_of(T value, ScalarType type) {
  Array array{dtype_of(type), {}, std::vector<uint8_t>(sizeof(T))};
  memcpy(array.data.data(), &value, sizeof(T));
  return array;
}

}  // namespace

Inputs make_inputs(
    const std::string& program,
    const MethodMeta& method,
    const std::vector<std::string>& files) {
  const std::string named = program + ": method \"" + method.name() + "\"";
  if (!files.empty() && files.size() != method.num_inputs()) {
    fail(named + " takes " + std::to_string(method.num_inputs()) + " inputs, got " +
         std::to_string(files.size()) + " with --input.");
  }
  Inputs inputs;
  for (size_t i = 0; i < method.num_inputs(); ++i) {
    const std::string what =
        files.empty() ? named + ", input " + std::to_string(i) : files[i] + " for " + named;
    Array given;
    if (!files.empty()) {
      given = read_npy(files[i]);
    }
    const Array* array = files.empty() ? nullptr : &given;
    const auto tag = method.input_tag(i);
    const auto info = method.input_tensor_meta(i);
    if (tag.ok() && *tag == Tag::Int) {
      inputs.values.emplace_back(scalar_of<int64_t>(array, ScalarType::Long, what));
    } else if (tag.ok() && *tag == Tag::Double) {
      inputs.values.emplace_back(scalar_of<double>(array, ScalarType::Double, what));
    } else if (tag.ok() && *tag == Tag::Bool) {
      inputs.values.emplace_back(scalar_of<bool>(array, ScalarType::Bool, what));
    } else if (info.ok()) {
      if (array == nullptr) {
        given = made_up(*info, what);
      } else {
        check_fits(given, *info, what);
      }
      add_tensor(inputs, given, *info);
    } else {
      fail(what + " is neither a tensor nor a number; the runner can't make it.");
    }
  }
  return inputs;
}

Array to_array(const EValue& value, const std::string& name) {
  if (value.isInt()) {
    return array_of(value.toInt(), ScalarType::Long);
  }
  if (value.isDouble()) {
    return array_of(value.toDouble(), ScalarType::Double);
  }
  if (value.isBool()) {
    return array_of(value.toBool(), ScalarType::Bool);
  }
  if (!value.isTensor()) {
    fail(name + " is neither a tensor nor a number; .npy files have nothing else.");
  }
  const executorch::aten::Tensor tensor = value.toTensor();
  Array array;
  array.dtype = &supported(tensor.scalar_type(), name);
  array.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
  array.data.resize(tensor.nbytes());
  const auto* data = static_cast<const uint8_t*>(tensor.const_data_ptr());
  if (data == nullptr && !array.data.empty()) {
    fail(name + " has no data.");
  }
  const DimOrder dim_order(tensor.dim_order().begin(), tensor.dim_order().end());
  if (is_row_major(dim_order) && !array.data.empty()) {
    memcpy(array.data.data(), data, array.data.size());
  } else {
    reorder(array.shape, dim_order, array.dtype->size, data, array.data.data(), true);
  }
  return array;
}

}  // namespace runner

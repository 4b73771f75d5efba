#include "tools/runner/tensors/inputs.h"

#include <cstring>

#include "tools/runner/base/fail.h"
#include "tools/runner/base/memory.h"
#include "tools/runner/tensors/npy.h"

namespace runner {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::Tag;
using executorch::runtime::TensorInfo;

// Whether it has each of the dimensions once.
bool is_order(const DimOrder& order, size_t rank) {
  std::vector<bool> seen(rank);
  for (const uint8_t dimension : order) {
    if (dimension >= rank || seen[dimension]) {
      return false;
    }
    seen[dimension] = true;
  }
  return order.size() == rank;
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

Array made_up(const TensorInfo& info, const std::string& what) {
  Array array;
  array.dtype = &dtype_or_fail(info.scalar_type(), what);
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
  const Dtype& wanted = dtype_or_fail(info.scalar_type(), what);
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

void add_tensor(Inputs& inputs, const Array& array, const TensorInfo& info, const std::string& what) {
  const DimOrder order(info.dim_order().begin(), info.dim_order().end());
  if (!is_order(order, array.shape.size())) {
    fail(what + " has an order of dimensions that makes no sense; the program is damaged.");
  }
  inputs.tensors.push_back(std::make_unique<OwnedTensor>(array, order));
  inputs.values.emplace_back(inputs.tensors.back()->tensor());
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

Inputs make_inputs(
    const std::string& title,
    const MethodMeta& method,
    const std::vector<std::string>& files) {
  if (!files.empty() && files.size() != method.num_inputs()) {
    fail(title + " takes " + std::to_string(method.num_inputs()) + " inputs, got " +
         std::to_string(files.size()) + " with --input.");
  }
  Inputs inputs;
  for (size_t i = 0; i < method.num_inputs(); ++i) {
    const std::string what =
        files.empty() ? title + ", input " + std::to_string(i) : files[i] + " for " + title;
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
      add_tensor(inputs, given, *info, what);
    } else {
      fail(what + " is neither a tensor nor a number; the runner can't make it.");
    }
  }
  return inputs;
}

}  // namespace runner

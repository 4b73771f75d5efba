#include "tools/runner/tensors/inputs.h"

#include <cstring>

#include "tools/runner/base/result.h"

namespace runner {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::Tag;
using executorch::runtime::TensorInfo;

Status check_fits(const ArrayView& array, const TensorInfo& info, const std::string& what) {
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
add_tensor(Inputs& inputs, const ArrayView& array, const TensorInfo& info, const std::string& what) {
  const DimOrder order(info.dim_order().begin(), info.dim_order().end());
  if (!is_order(order, array.shape.size())) {
    return error(what + " has an order of dimensions that makes no sense; the program is damaged.");
  }
  inputs.tensors.push_back(std::make_unique<OwnedTensor>(array, order));
  inputs.values.emplace_back(inputs.tensors.back()->tensor());
  return {};
}

template <class T>
Result<T> scalar_of(const ArrayView& array, ScalarType type, const std::string& what) {
  T value{};
  if (array.dtype->type != type || array.size != sizeof(T)) {
    return error(what + " is " + array.dtype->name + " " + shape_text(array.shape) + ", expected one " +
         dtype_of(type)->name + ".");
  }
  memcpy(&value, array.data, sizeof(T));
  return value;
}

}  // namespace

OwnedTensor::OwnedTensor(const ArrayView& array, const DimOrder& order)
    : data_(array.size),
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

Status check_input_count(const std::string& title, const MethodMeta& method, size_t count) {
  if (count != method.num_inputs()) {
    return error(
        title + " takes " + std::to_string(method.num_inputs()) + " inputs, got " + std::to_string(count) + ".");
  }
  return {};
}

Result<Inputs> make_inputs(
    const std::string& title,
    const MethodMeta& method,
    const std::vector<GivenInput>& given) {
  TRY(check_input_count(title, method, given.size()));
  Inputs inputs;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string what = given[i].name + " for " + title;
    const ArrayView& array = given[i].array;
    const auto tag = method.input_tag(i);
    const auto info = method.input_tensor_meta(i);
    if (tag.ok() && *tag == Tag::Int) {
      inputs.values.emplace_back(TRY(scalar_of<int64_t>(array, ScalarType::Long, what)));
    } else if (tag.ok() && *tag == Tag::Double) {
      inputs.values.emplace_back(TRY(scalar_of<double>(array, ScalarType::Double, what)));
    } else if (tag.ok() && *tag == Tag::Bool) {
      // Any byte that is not 0 is true; a bool that is neither 0 nor 1 is undefined.
      inputs.values.emplace_back(TRY(scalar_of<uint8_t>(array, ScalarType::Bool, what)) != 0);
    } else if (tag.ok() && *tag == Tag::None) {
      inputs.values.emplace_back();
    } else if (info.ok()) {
      TRY(check_fits(array, *info, what));
      TRY(add_tensor(inputs, array, *info, what));
    } else {
      return error(what + " is neither a tensor nor a number; the runner cannot generate it.");
    }
  }
  return inputs;
}

}  // namespace runner

#include <cstring>

#include "tools/runner/base/fail.h"
#include "tools/runner/base/memory.h"
#include "tools/runner/tensors/inputs.h"

namespace runner {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::MethodMeta;
using executorch::runtime::Tag;
using executorch::runtime::TensorInfo;

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

Array tensor_of(const TensorInfo& info, const std::string& what) {
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

Array zero(ScalarType type) {
  Array array;
  array.dtype = dtype_of(type);
  array.data.resize(array.dtype->size);
  return array;
}

Array made_up(const MethodMeta& method, size_t index, const std::string& what) {
  const auto tag = method.input_tag(index);
  const auto info = method.input_tensor_meta(index);
  if (info.ok()) {
    return tensor_of(*info, what);
  }
  if (tag.ok() && *tag == Tag::Double) {
    return zero(ScalarType::Double);
  }
  return zero(tag.ok() && *tag == Tag::Bool ? ScalarType::Bool : ScalarType::Long);
}

}  // namespace

std::vector<GivenInput> make_up_inputs(const std::string& title, const MethodMeta& method) {
  std::vector<GivenInput> inputs;
  for (size_t i = 0; i < method.num_inputs(); ++i) {
    const std::string name = "input " + std::to_string(i);
    inputs.push_back({made_up(method, i, title + ", " + name), name});
  }
  return inputs;
}

}  // namespace runner

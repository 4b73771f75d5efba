#include "tools/runner/tensors/array.h"

#include <cstring>

#include "tools/runner/base/result.h"

namespace runner {
namespace {

using executorch::aten::ScalarType;

constexpr Dtype kDtypes[] = {
    {ScalarType::Float, "float32", "<f4", "F32", 4},
    {ScalarType::Half, "float16", "<f2", "F16", 2},
    {ScalarType::Double, "float64", "<f8", "F64", 8},
    {ScalarType::BFloat16, "bfloat16", nullptr, "BF16", 2},
    {ScalarType::Char, "int8", "|i1", "I8", 1},
    {ScalarType::Short, "int16", "<i2", "I16", 2},
    {ScalarType::Int, "int32", "<i4", "I32", 4},
    {ScalarType::Long, "int64", "<i8", "I64", 8},
    {ScalarType::Byte, "uint8", "|u1", "U8", 1},
    {ScalarType::UInt16, "uint16", "<u2", "U16", 2},
    {ScalarType::UInt32, "uint32", "<u4", "U32", 4},
    {ScalarType::UInt64, "uint64", "<u8", "U64", 8},
    {ScalarType::Bool, "bool", "|b1", "BOOL", 1},
};

bool is_row_major(const DimOrder& order) {
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != i) {
      return false;
    }
  }
  return true;
}

// Calls `copy(row-major index, index in `order`)` for each element.
template <class Copy>
void for_each(const std::vector<int64_t>& shape, const DimOrder& order, const Copy& copy) {
  const size_t rank = shape.size();
  std::vector<size_t> strides(rank);
  size_t count = 1;
  for (size_t i = rank; i-- > 0;) {
    strides[order[i]] = count;
    count *= static_cast<size_t>(shape[order[i]]);
  }
  std::vector<int64_t> at(rank);
  for (size_t row_major = 0; row_major < count; ++row_major) {
    size_t ordered = 0;
    for (size_t d = 0; d < rank; ++d) {
      ordered += static_cast<size_t>(at[d]) * strides[d];
    }
    copy(row_major, ordered);
    for (size_t d = rank; d-- > 0 && ++at[d] == shape[d];) {
      at[d] = 0;
    }
  }
}

}  // namespace

const Dtype* dtype_of(ScalarType type) {
  for (const Dtype& dtype : kDtypes) {
    if (dtype.type == type) {
      return &dtype;
    }
  }
  return nullptr;
}

const Dtype* dtype_of_name(const std::string& name) {
  for (const Dtype& dtype : kDtypes) {
    if (name == dtype.name) {
      return &dtype;
    }
  }
  return nullptr;
}

const Dtype* dtype_of_npy(const std::string& npy) {
  for (const Dtype& dtype : kDtypes) {
    if (dtype.npy != nullptr && npy == dtype.npy) {
      return &dtype;
    }
  }
  return nullptr;
}

const Dtype* dtype_of_safetensors(const std::string& safetensors) {
  for (const Dtype& dtype : kDtypes) {
    if (safetensors == dtype.safetensors) {
      return &dtype;
    }
  }
  return nullptr;
}

Result<const Dtype*> known_dtype(ScalarType type, const std::string& what) {
  const Dtype* dtype = dtype_of(type);
  if (dtype == nullptr) {
    return error(what + " has a dtype that the runner does not know (number " +
         std::to_string(static_cast<int>(type)) + "), expected one of " + dtype_names() + ".");
  }
  return dtype;
}

std::string dtype_names() {
  std::string names;
  for (const Dtype& dtype : kDtypes) {
    names += (names.empty() ? "" : ", ") + std::string(dtype.name);
  }
  return names;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  }
  return "(" + text + ")";
}

int64_t bytes_of(const Dtype& dtype, const std::vector<int64_t>& shape) {
  int64_t bytes = static_cast<int64_t>(dtype.size);
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) {
      return -1;
    }
  }
  return bytes;
}

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

void to_order(const ArrayView& array, const DimOrder& order, uint8_t* to) {
  if (array.size == 0) {
    return;
  }
  if (is_row_major(order)) {
    memcpy(to, array.data, array.size);
    return;
  }
  const size_t size = array.dtype->size;
  for_each(array.shape, order, [&](size_t row_major, size_t ordered) {
    memcpy(to + ordered * size, array.data + row_major * size, size);
  });
}

void from_order(const uint8_t* from, const DimOrder& order, Array& array) {
  if (array.data.empty()) {
    return;
  }
  if (is_row_major(order)) {
    memcpy(array.data.data(), from, array.data.size());
    return;
  }
  const size_t size = array.dtype->size;
  for_each(array.shape, order, [&](size_t row_major, size_t ordered) {
    memcpy(array.data.data() + row_major * size, from + ordered * size, size);
  });
}

}  // namespace runner

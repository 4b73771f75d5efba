#include "tools/runner/tensors/dtype.h"

#include "tools/runner/base/fail.h"

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

}  // namespace

const Dtype* dtype_of(ScalarType type) {
  for (const Dtype& dtype : kDtypes) {
    if (dtype.type == type) {
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

const Dtype& dtype_or_fail(ScalarType type, const std::string& what) {
  const Dtype* dtype = dtype_of(type);
  if (dtype == nullptr) {
    fail(what + " has a dtype that the runner doesn't know (number " +
         std::to_string(static_cast<int>(type)) + "), wanted one of " + dtype_names() + ".");
  }
  return *dtype;
}

std::string dtype_names() {
  std::string names;
  for (const Dtype& dtype : kDtypes) {
    names += (names.empty() ? "" : ", ") + std::string(dtype.name);
  }
  return names;
}

}  // namespace runner

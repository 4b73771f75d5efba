#include "tools/runner/bundled/bundled_file.h"

#include <algorithm>
#include <cstring>

#include "tools/runner/base/result.h"
#include "tools/runner/files/flatbuffer.h"

namespace runner {
namespace {

using executorch::aten::ScalarType;

// Fields of BundledProgram, and members of the union ValueUnion.
constexpr int kSuites = 1;
constexpr int kProgram = 2;
// Each loads the program once.
constexpr size_t kMaxCases = 10000;
// Of all cases: each takes 25 times the memory of its reference in the file.
constexpr size_t kMaxValues = 100'000;
enum : uint8_t { kTensor = 1, kInt = 2, kBool = 3, kDouble = 4 };

Status damaged(const MappedFile& file, const std::string& how) {
  return error(file.path() + " is damaged: " + how + "; fetch or build it again.");
}

Status damaged_tables(const MappedFile& file) {
  return damaged(file, "its tables lead outside of it, or overlap");
}

Result<Array> read_tensor(FlatBuffer& tables, uint64_t tensor, const MappedFile& file) {
  Array array;
  array.dtype = TRY(known_dtype(
      static_cast<ScalarType>(tables.scalar<int8_t>(tensor, 0)), file.path() + ": a tensor"));
  const FlatBuffer::Vector sizes = tables.vector(tensor, 1, 4);
  const FlatBuffer::Vector data = tables.vector(tensor, 2, 1);
  const FlatBuffer::Vector order = tables.vector(tensor, 3, 1);
  DimOrder dim_order;
  for (uint32_t i = 0; i < std::min<uint32_t>(sizes.length, kMaxDimensions); ++i) {
    array.shape.push_back(tables.read<int32_t>(sizes.start + 4 * uint64_t{i}));
    dim_order.push_back(
        order.length == 0 ? static_cast<uint8_t>(i) : tables.read<uint8_t>(order.start + i));
  }
  if (tables.damaged()) {
    return damaged_tables(file);
  }
  if (sizes.length > kMaxDimensions) {
    return damaged(file, "a tensor has " + std::to_string(sizes.length) + " dimensions, expected at most " +
                      std::to_string(kMaxDimensions));
  }
  if (!is_order(dim_order, array.shape.size()) ||
      bytes_of(*array.dtype, array.shape) != int64_t{data.length}) {
    return damaged(file, "a tensor's shape does not fit its data");
  }
  array.data.resize(data.length);
  from_order(file.data() + data.start, dim_order, array);
  return array;
}

Result<std::vector<Array>> read_values(
    FlatBuffer& tables,
    const FlatBuffer::Vector& values,
    const MappedFile& file) {
  std::vector<Array> arrays;
  for (uint32_t i = 0; i < values.length && !tables.damaged(); ++i) {
    const uint64_t value = tables.table_in(values, i);
    const uint64_t content = tables.table(value, 1);
    switch (tables.scalar<uint8_t>(value, 0)) {
      case kTensor:
        arrays.push_back(TRY(read_tensor(tables, content, file)));
        break;
      case kInt:
        arrays.push_back(scalar_array(tables.scalar<int64_t>(content, 0), ScalarType::Long));
        break;
      case kBool:
        arrays.push_back(scalar_array(tables.scalar<uint8_t>(content, 0) != 0, ScalarType::Bool));
        break;
      case kDouble:
        arrays.push_back(scalar_array(tables.scalar<double>(content, 0), ScalarType::Double));
        break;
      default:
        return damaged(file, "a value is of an unknown kind");
    }
  }
  return arrays;
}

}  // namespace

Result<BundledFile> read_bundled(const MappedFile& file) {
  if (file.size() < 8 || memcmp(file.data() + 4, "BP08", 4) != 0) {
    return error(file.path() + " is not a bundled program: it has no \"BP08\" at byte 4.");
  }
  FlatBuffer tables(file.data(), file.size());
  const uint64_t root = tables.root();
  BundledFile bundled;
  const FlatBuffer::Vector program = tables.vector(root, kProgram, 1);
  bundled.program = file.data() + program.start;
  bundled.program_size = program.length;
  size_t values = 0;
  const auto read_counted = [&](uint64_t test_case, int field) -> Result<std::vector<Array>> {
    const FlatBuffer::Vector references = tables.vector(test_case, field, 4);
    values += references.length;
    if (values > kMaxValues) {
      return damaged(file, "its test cases have more than the " + std::to_string(kMaxValues) +
                        " inputs and outputs that are expected at most");
    }
    return read_values(tables, references, file);
  };
  const FlatBuffer::Vector suites = tables.vector(root, kSuites, 4);
  for (uint32_t i = 0; i < suites.length && !tables.damaged(); ++i) {
    const uint64_t suite = tables.table_in(suites, i);
    const std::string_view method = tables.string(suite, 0);
    const FlatBuffer::Vector cases = tables.vector(suite, 1, 4);
    if (bundled.cases.size() + cases.length > kMaxCases) {
      return damaged(file, "it has more than the " + std::to_string(kMaxCases) + " test cases that are expected at most");
    }
    for (uint32_t j = 0; j < cases.length && !tables.damaged(); ++j) {
      const uint64_t test_case = tables.table_in(cases, j);
      std::vector<Array> inputs = TRY(read_counted(test_case, 0));
      std::vector<Array> expected = TRY(read_counted(test_case, 1));
      bundled.cases.push_back({method, j, std::move(inputs), std::move(expected)});
    }
  }
  if (tables.damaged()) {
    return damaged_tables(file);
  }
  return bundled;
}

}  // namespace runner

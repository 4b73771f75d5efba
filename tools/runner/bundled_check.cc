#include "tools/runner/bundled_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tools/runner/api/tensors.h"
#include "tools/runner/base/os.h"
#include "tools/runner/base/text.h"
#include "tools/runner/bundled/bundled_file.h"

namespace runner {
namespace {

using executorch::aten::ScalarType;

template <class T>
T number_of(const uint8_t* from) {
  T value;
  memcpy(&value, from, sizeof(T));
  return value;
}

bool is_exact(ScalarType type) {
  return type != ScalarType::Float && type != ScalarType::Half && type != ScalarType::Double &&
      type != ScalarType::BFloat16;
}

double number_at(const ArrayView& array, size_t index) {
  const uint8_t* from = array.data + index * array.dtype->size;
  switch (array.dtype->type) {
    case ScalarType::Float:
      return number_of<float>(from);
    case ScalarType::Half:
      return static_cast<float>(number_of<executorch::aten::Half>(from));
    case ScalarType::BFloat16:
      return static_cast<float>(number_of<executorch::aten::BFloat16>(from));
    case ScalarType::Double:
      return number_of<double>(from);
    case ScalarType::Char:
      return number_of<int8_t>(from);
    case ScalarType::Short:
      return number_of<int16_t>(from);
    case ScalarType::Int:
      return number_of<int32_t>(from);
    case ScalarType::Long:
      return static_cast<double>(number_of<int64_t>(from));
    case ScalarType::UInt16:
      return number_of<uint16_t>(from);
    case ScalarType::UInt32:
      return number_of<uint32_t>(from);
    case ScalarType::UInt64:
      return static_cast<double>(number_of<uint64_t>(from));
    default:
      return number_of<uint8_t>(from);
  }
}

std::string position_text(const std::vector<int64_t>& shape, size_t index) {
  std::vector<int64_t> at(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    at[d] = static_cast<int64_t>(index) % shape[d];
    index /= static_cast<size_t>(shape[d]);
  }
  return shape_text(at);
}

// Two numbers' difference, which orders them exactly, and as a number for reports.
struct Difference {
  double value = 0;
  uint64_t exact = 0;  // Of integers.

  bool operator>(const Difference& other) const {
    return exact != other.exact ? exact > other.exact : value > other.value;
  }
};

// The number in all its digits, if it is an integer.
std::string number_text(const ArrayView& array, size_t index) {
  const uint8_t* from = array.data + index * array.dtype->size;
  switch (array.dtype->type) {
    case ScalarType::Long:
      return std::to_string(number_of<int64_t>(from));
    case ScalarType::UInt64:
      return std::to_string(number_of<uint64_t>(from));
    default:
      return is_exact(array.dtype->type) ? std::to_string(static_cast<int64_t>(number_at(array, index)))
                                         : short_text(number_at(array, index));
  }
}

// The bits of an integer as a number of 64 bits.
uint64_t bits_at(const ArrayView& array, size_t index) {
  const uint8_t* from = array.data + index * array.dtype->size;
  switch (array.dtype->type) {
    case ScalarType::Long:
    case ScalarType::UInt64:
      return number_of<uint64_t>(from);
    default:
      return static_cast<uint64_t>(static_cast<int64_t>(number_at(array, index)));
  }
}

// Of two integers that are not equal. Differences of 64 bits fit into a number without sign.
Difference integer_difference(const ArrayView& mine, const ArrayView& theirs, size_t index) {
  const uint64_t one = bits_at(mine, index), other = bits_at(theirs, index);
  const bool is_less = mine.dtype->type == ScalarType::UInt64
      ? one < other
      : static_cast<int64_t>(one) < static_cast<int64_t>(other);
  const uint64_t exact = is_less ? other - one : one - other;
  return {static_cast<double>(exact), exact};
}

// Of two numbers that are not integers; NaN, if only one of them is NaN, counts as the largest.
Difference float_difference(double mine, double theirs) {
  const double raw = std::fabs(mine - theirs);
  return {std::isnan(raw) ? INFINITY : raw, 0};
}

struct Comparison {
  double largest = 0;   // Difference.
  std::string problem;  // "": each number is within the tolerance.
};

// Integers and booleans must be equal.
Comparison compare(const ArrayView& got, const ArrayView& expected, const Tolerance& tolerance) {
  Comparison result;
  if (got.dtype != expected.dtype || got.shape != expected.shape) {
    result.problem = std::string("is ") + got.dtype->name + " " + shape_text(got.shape) +
        ", expected " + expected.dtype->name + " " + shape_text(expected.shape);
    return result;
  }
  const size_t size = expected.dtype->size;
  const size_t count = expected.size / size;
  const bool exact = is_exact(expected.dtype->type);
  size_t wrong = 0, worst = 0;
  Difference largest;
  for (size_t i = 0; i < count; ++i) {
    if (memcmp(got.data + i * size, expected.data + i * size, size) == 0) {
      continue;
    }
    const double mine = number_at(got, i), theirs = number_at(expected, i);
    // Bytes of floats may differ although they are equal: two zeros, or two NaNs.
    if (!exact && (mine == theirs || (std::isnan(mine) && std::isnan(theirs)))) {
      continue;
    }
    const Difference difference = exact ? integer_difference(got, expected, i) : float_difference(mine, theirs);
    if (difference > largest) {
      largest = difference;
      worst = i;
    }
    const double allowed = exact ? 0 : tolerance.absolute + tolerance.relative * std::fabs(theirs);
    wrong += std::isfinite(difference.value) && difference.value <= allowed ? 0 : 1;
  }
  result.largest = largest.value;
  if (wrong > 0) {
    const std::string up_to = exact ? std::to_string(largest.exact) : short_text(largest.value);
    result.problem = "differs by up to " + up_to + ", at " + position_text(expected.shape, worst) + ": got " +
        number_text(got, worst) + ", expected " + number_text(expected, worst) + "; " + std::to_string(wrong) + " of " +
        std::to_string(count) + " numbers are outside of " + short_text(tolerance.absolute) +
        " + " + short_text(tolerance.relative) + " * |expected|";
  }
  return result;
}

// The largest difference of a case's outputs.
Result<double> run_case(
    const BundledCase& test_case,
    const OpenProgram& program,
    const Tolerance& tolerance,
    ProgramReport& report) {
  const std::string name(test_case.method);
  const auto loading = now();
  TRY(call(executorch_app_reset_session, program.session));
  TRY(call(executorch_app_load_method, program.session, name.c_str()));
  report.load_ms += milliseconds_since(loading);
  const std::string number = std::to_string(test_case.number);
  const std::string input = "an input of case " + number;
  std::vector<executorch_app_tensor> tensors;
  for (const Array& array : test_case.inputs) {
    tensors.push_back(tensor_of(array, input.c_str()));
  }
  const executorch_app_tensor* outputs = nullptr;
  size_t count = 0;
  TRY(call(
      executorch_app_run, program.session, name.c_str(), tensors.data(), tensors.size(), &outputs, &count));
  report.run_ms.push_back(executorch_app_last_run(program.session, nullptr));
  const std::string title = program.title(name) + ", case " + number;
  if (count != test_case.expected.size()) {
    return error(title + ": returns " + std::to_string(count) + " outputs, expected " +
         std::to_string(test_case.expected.size()) + ".");
  }
  double largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const Comparison compared = compare(view_of(outputs[i]), test_case.expected[i].view(), tolerance);
    if (!compared.problem.empty()) {
      return error(title + ": output_" + std::to_string(i) + " " + compared.problem + ".");
    }
    largest = std::max(largest, compared.largest);
  }
  return largest;
}

}  // namespace

Status check_bundled(
    const OpenProgram& program,
    const std::string& method,
    const Tolerance& tolerance,
    ProgramReport& report) {
  report.bundled.emplace();
  const MappedFile file = TRY(MappedFile::open(program.path(), "a program"));
  const BundledFile bundled = TRY(read_bundled(file));
  for (const BundledCase& test_case : bundled.cases) {
    if (method.empty() || test_case.method == method) {
      const double largest = TRY(run_case(test_case, program, tolerance, report));
      report.bundled->cases += 1;
      report.bundled->largest_difference = std::max(report.bundled->largest_difference, largest);
    }
  }
  if (report.bundled->cases == 0) {
    return error(program.path() + " has no test case" +
         (method.empty() ? "" : " for method \"" + method + "\"") + ".");
  }
  return {};
}

}  // namespace runner

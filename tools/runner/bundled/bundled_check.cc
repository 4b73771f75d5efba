#include "tools/runner/bundled/bundled_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tools/runner/base/os.h"
#include "tools/runner/base/result.h"
#include "tools/runner/base/text.h"
#include "tools/runner/tensors/inputs.h"
#include "tools/runner/tensors/outputs.h"

namespace runner {
namespace {

using executorch::aten::ScalarType;

template <class T>
T read(const uint8_t* from) {
  T value;
  memcpy(&value, from, sizeof(T));
  return value;
}

bool is_exact(ScalarType type) {
  return type != ScalarType::Float && type != ScalarType::Half && type != ScalarType::Double &&
      type != ScalarType::BFloat16;
}

double number_at(const Array& array, size_t index) {
  const uint8_t* from = array.data.data() + index * array.dtype->size;
  switch (array.dtype->type) {
    case ScalarType::Float:
      return read<float>(from);
    case ScalarType::Half:
      return static_cast<float>(read<executorch::aten::Half>(from));
    case ScalarType::BFloat16:
      return static_cast<float>(read<executorch::aten::BFloat16>(from));
    case ScalarType::Double:
      return read<double>(from);
    case ScalarType::Char:
      return read<int8_t>(from);
    case ScalarType::Short:
      return read<int16_t>(from);
    case ScalarType::Int:
      return read<int32_t>(from);
    case ScalarType::Long:
      return static_cast<double>(read<int64_t>(from));
    case ScalarType::UInt16:
      return read<uint16_t>(from);
    case ScalarType::UInt32:
      return read<uint32_t>(from);
    case ScalarType::UInt64:
      return static_cast<double>(read<uint64_t>(from));
    default:
      return read<uint8_t>(from);
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

struct Comparison {
  double largest = 0;   // Difference.
  std::string problem;  // "": each number is within the tolerance.
};

// Integers and booleans must be equal.
Comparison compare(const Array& got, const Array& expected, const Tolerance& tolerance) {
  Comparison result;
  if (got.dtype != expected.dtype || got.shape != expected.shape) {
    result.problem = std::string("is ") + got.dtype->name + " " + shape_text(got.shape) +
        ", expected " + expected.dtype->name + " " + shape_text(expected.shape);
    return result;
  }
  const size_t size = expected.dtype->size;
  const size_t count = expected.data.size() / size;
  size_t wrong = 0, worst = 0;
  for (size_t i = 0; i < count; ++i) {
    if (memcmp(got.data.data() + i * size, expected.data.data() + i * size, size) == 0) {
      continue;
    }
    const double mine = number_at(got, i), theirs = number_at(expected, i);
    const bool both_nan = std::isnan(mine) && std::isnan(theirs);
    if (both_nan || mine == theirs) {
      wrong += !both_nan && is_exact(expected.dtype->type) ? 1 : 0;
      continue;
    }
    // NaN, if one of them is NaN: counts as the largest difference.
    const double raw = std::fabs(mine - theirs);
    const double difference = std::isnan(raw) ? INFINITY : raw;
    if (difference > result.largest) {
      result.largest = difference;
      worst = i;
    }
    const double allowed = is_exact(expected.dtype->type)
        ? 0
        : tolerance.absolute + tolerance.relative * std::fabs(theirs);
    wrong += std::isfinite(difference) && difference <= allowed ? 0 : 1;
  }
  if (wrong > 0) {
    result.problem = "differs by up to " + short_text(result.largest) + ", at " +
        position_text(expected.shape, worst) + ": got " + short_text(number_at(got, worst)) + ", expected " +
        short_text(number_at(expected, worst)) + "; " + std::to_string(wrong) + " of " +
        std::to_string(count) + " numbers are outside of " + short_text(tolerance.absolute) +
        " + " + short_text(tolerance.relative) + " * |expected|";
  }
  return result;
}

std::vector<GivenInput> given_inputs(const BundledCase& test_case) {
  std::vector<GivenInput> given;
  for (size_t i = 0; i < test_case.inputs.size(); ++i) {
    given.push_back({test_case.inputs[i], "input " + std::to_string(i)});
  }
  return given;
}

// The largest difference of a case's outputs.
Result<double> run_case(
    const BundledCase& test_case,
    const CheckedFiles& files,
    const MethodOptions& options,
    const Tolerance& tolerance,
    ProgramReport& report) {
  const auto loading = now();
  const auto loaded = TRY(Program::load(files, options));
  Program& program = *loaded;
  const std::string name = TRY(program.choose_method(std::string(test_case.method)));
  Method& method = *TRY(program.method(name));
  report.load_ms += milliseconds_since(loading);
  const std::string title =
      program.title(name) + ", case " + std::to_string(test_case.number);
  const auto meta = TRY(program.meta(name));
  const Inputs inputs = TRY(make_inputs(title, meta, given_inputs(test_case)));
  const auto running = now();
  const auto outputs = TRY(method.run(inputs.values));
  report.run_ms.push_back(milliseconds_since(running));
  if (outputs.size() != test_case.expected.size()) {
    return error(title + ": returns " + std::to_string(outputs.size()) + " outputs, expected " +
         std::to_string(test_case.expected.size()) + ".");
  }
  double largest = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string output = title + ": output_" + std::to_string(i);
    const Array array = TRY(to_array(outputs[i], output));
    const Comparison compared = compare(array, test_case.expected[i], tolerance);
    if (!compared.problem.empty()) {
      return error(output + " " + compared.problem + ".");
    }
    largest = std::max(largest, compared.largest);
  }
  return largest;
}

}  // namespace

Status check_bundled(
    const CheckedFiles& files,
    const std::string& method,
    const MethodOptions& options,
    const Tolerance& tolerance,
    ProgramReport& report) {
  report.bundled.emplace();
  for (const BundledCase& test_case : files.cases) {
    if (method.empty() || test_case.method == method) {
      const double largest = TRY(run_case(test_case, files, options, tolerance, report));
      report.bundled->cases += 1;
      report.bundled->largest_difference = std::max(report.bundled->largest_difference, largest);
    }
  }
  if (report.bundled->cases == 0) {
    return error(files.program->path() + " has no test case" +
         (method.empty() ? "" : " for method \"" + method + "\"") + ".");
  }
  return {};
}

}  // namespace runner

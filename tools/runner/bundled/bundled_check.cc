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

std::string place(const std::vector<int64_t>& shape, size_t index) {
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

// Integers and booleans have to be equal.
Comparison compare(const Array& got, const Array& wanted, const Tolerance& tolerance) {
  Comparison result;
  if (got.dtype != wanted.dtype || got.shape != wanted.shape) {
    result.problem = std::string("is ") + got.dtype->name + " " + shape_text(got.shape) +
        ", wanted " + wanted.dtype->name + " " + shape_text(wanted.shape);
    return result;
  }
  const size_t size = wanted.dtype->size;
  const size_t count = wanted.data.size() / size;
  size_t wrong = 0, worst = 0;
  for (size_t i = 0; i < count; ++i) {
    if (memcmp(got.data.data() + i * size, wanted.data.data() + i * size, size) == 0) {
      continue;
    }
    const double mine = number_at(got, i), theirs = number_at(wanted, i);
    const bool both_nan = std::isnan(mine) && std::isnan(theirs);
    if (both_nan || mine == theirs) {
      wrong += !both_nan && is_exact(wanted.dtype->type) ? 1 : 0;
      continue;
    }
    // Not a number, where one of them is none: nothing is farther away.
    const double raw = std::fabs(mine - theirs);
    const double difference = std::isnan(raw) ? INFINITY : raw;
    if (difference > result.largest) {
      result.largest = difference;
      worst = i;
    }
    const double allowed = is_exact(wanted.dtype->type)
        ? 0
        : tolerance.absolute + tolerance.relative * std::fabs(theirs);
    wrong += std::isfinite(difference) && difference <= allowed ? 0 : 1;
  }
  if (wrong > 0) {
    result.problem = "differs by up to " + short_text(result.largest) + ", at " +
        place(wanted.shape, worst) + ": got " + short_text(number_at(got, worst)) + ", wanted " +
        short_text(number_at(wanted, worst)) + "; " + std::to_string(wrong) + " of " +
        std::to_string(count) + " numbers are outside of " + short_text(tolerance.absolute) +
        " + " + short_text(tolerance.relative) + " * |wanted|";
  }
  return result;
}

std::vector<GivenInput> given_inputs(const BundledCase& one) {
  std::vector<GivenInput> given;
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    given.push_back({one.inputs[i], "input " + std::to_string(i)});
  }
  return given;
}

// The largest difference of a case's outputs.
Result<double> run_case(
    const BundledCase& one,
    const CheckedFiles& files,
    const MethodOptions& options,
    const Tolerance& tolerance,
    ProgramReport& report) {
  const auto loading = now();
  const auto loaded = TRY(Program::load(files, options));
  Program& program = *loaded;
  const std::string name = TRY(program.choose_method(std::string(one.method)));
  Method& method = *TRY(program.method(name));
  report.load_ms += milliseconds_since(loading);
  const std::string title =
      program.title(name) + ", case " + std::to_string(one.number);
  const auto meta = TRY(program.meta(name));
  const Inputs inputs = TRY(make_inputs(title, meta, given_inputs(one)));
  const auto running = now();
  const auto outputs = TRY(method.run(inputs.values));
  report.run_ms.push_back(milliseconds_since(running));
  if (outputs.size() != one.expected.size()) {
    return error(title + ": gives " + std::to_string(outputs.size()) + " outputs, wanted " +
         std::to_string(one.expected.size()) + ".");
  }
  double largest = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string output = title + ": output_" + std::to_string(i);
    const Array array = TRY(to_array(outputs[i], output));
    const Comparison compared = compare(array, one.expected[i], tolerance);
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
  for (const BundledCase& one : files.cases) {
    if (method.empty() || one.method == method) {
      const double largest = TRY(run_case(one, files, options, tolerance, report));
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

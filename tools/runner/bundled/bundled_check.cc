#include "tools/runner/bundled/bundled_check.h"

#include <algorithm>

#include "tools/runner/base/clock.h"
#include "tools/runner/base/fail.h"
#include "tools/runner/tensors/inputs.h"
#include "tools/runner/tensors/outputs.h"

namespace runner {
namespace {

std::vector<GivenInput> given_inputs(const BundledCase& one) {
  std::vector<GivenInput> given;
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    given.push_back({one.inputs[i], "input " + std::to_string(i)});
  }
  return given;
}

// The largest difference of a case's outputs.
double run_case(
    const BundledCase& one,
    const CheckedFiles& files,
    const MethodOptions& options,
    const Tolerance& tolerance,
    ProgramReport& report) {
  const auto loading = now();
  Program program(files, options);
  program.choose_method(one.method);
  Method& method = program.method(one.method);
  report.load_ms += milliseconds_since(loading);
  const std::string title =
      program.title(one.method) + ", case " + std::to_string(one.number);
  const Inputs inputs = make_inputs(title, program.meta(one.method), given_inputs(one));
  const auto running = now();
  const auto outputs = method.run(inputs.values);
  report.run_ms.push_back(milliseconds_since(running));
  if (outputs.size() != one.expected.size()) {
    fail(title + ": gives " + std::to_string(outputs.size()) + " outputs, wanted " +
         std::to_string(one.expected.size()) + ".");
  }
  double largest = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = title + ": output_" + std::to_string(i);
    const Comparison compared = compare(to_array(outputs[i], name), one.expected[i], tolerance);
    if (!compared.problem.empty()) {
      fail(name + " " + compared.problem + ".");
    }
    largest = std::max(largest, compared.largest);
  }
  return largest;
}

}  // namespace

void check_bundled(
    const CheckedFiles& files,
    const std::string& method,
    const MethodOptions& options,
    const Tolerance& tolerance,
    ProgramReport& report) {
  report.bundled.emplace();
  for (const BundledCase& one : files.cases) {
    if (method.empty() || one.method == method) {
      const double largest = run_case(one, files, options, tolerance, report);
      report.bundled->cases += 1;
      report.bundled->largest_difference = std::max(report.bundled->largest_difference, largest);
    }
  }
  if (report.bundled->cases == 0) {
    fail(files.program->path() + " has no test case" +
         (method.empty() ? "" : " for method \"" + method + "\"") + ".");
  }
}

}  // namespace runner

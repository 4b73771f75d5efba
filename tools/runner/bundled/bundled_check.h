// --bundled: runs the test cases inside of a .bpte file, and compares what they give within bounds.
#pragma once

#include <string>

#include "tools/runner/engine/program.h"
#include "tools/runner/report.h"

namespace runner {

// Of numbers that are not integers or booleans: |got - wanted| <= absolute + relative * |wanted|.
struct Tolerance {
  double absolute = 1e-4;
  double relative = 1e-4;
};

// Runs all cases of the file's program, or those of one method, each with a state as freshly loaded,
// and fills in the report. An error at the first output that differs.
Status check_bundled(
    const CheckedFiles& files,
    const std::string& method,
    const MethodOptions& options,
    const Tolerance& tolerance,
    ProgramReport& report);

}  // namespace runner

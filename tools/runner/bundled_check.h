// --bundled: runs the test cases of a .bpte file, and compares their outputs within a tolerance.
#pragma once

#include <string>

#include "tools/runner/calls.h"
#include "tools/runner/report.h"

namespace runner {

// For floating-point outputs: |got - expected| <= absolute + relative * |expected|.
struct Tolerance {
  double absolute = 1e-4;
  double relative = 1e-4;
};

// Runs all cases of the program's file, or those of one method, each with the initial state, and fills in the report.
// An error at the first output that differs.
Status check_bundled(
    const OpenProgram& program,
    const std::string& method,
    const Tolerance& tolerance,
    ProgramReport& report);

}  // namespace runner

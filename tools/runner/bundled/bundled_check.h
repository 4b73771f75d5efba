// --bundled: runs the test cases inside of a .bpte file.
#pragma once

#include "tools/runner/bundled/comparison.h"
#include "tools/runner/engine/program.h"
#include "tools/runner/report.h"

namespace runner {

// Runs all cases of the file's program, or those of one method, each with a state as freshly loaded,
// and fills in the report. Ends the process with a sentence at the first output that differs.
void check_bundled(
    const CheckedFiles& files,
    const std::string& method,
    const MethodOptions& options,
    const Tolerance& tolerance,
    ProgramReport& report);

}  // namespace runner

// Checks a program's files before anything is loaded.
#pragma once

#include <string>
#include <vector>

#include "tools/runner/arguments.h"

namespace runner {

// The program's data files, in the order to load them.
//
// Ends the process with a sentence if a file is missing, damaged or not the one that the program was
// built with, or if the weight cache is asked for and unsafe.
std::vector<std::string> check_files(
    const Arguments::Program& program,
    bool verify,
    bool weight_cache);

}  // namespace runner

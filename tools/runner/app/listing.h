// --list: what there is to run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/runner/engine/program.h"

namespace runner {

struct ListedProgram {
  std::string name;  // In the app, or its path.
  std::unique_ptr<Program> program;
};

// Prints programs, methods, inputs and outputs, as text or as JSON.
void print_listing(const std::vector<ListedProgram>& programs, bool as_json);

}  // namespace runner

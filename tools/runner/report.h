// What the runner prints: times and memory, as text or JSON.
#pragma once

#include <string>
#include <vector>

#include "tools/runner/base/memory.h"

namespace runner {

struct ProgramReport {
  std::string program;
  std::vector<std::string> data;
  std::string method;
  double load_ms = 0;
  Memory after_load;
  std::vector<double> run_ms;  // One per repeat.
  Memory after_run;
  std::vector<std::string> outputs;  // Files.
};

struct Report {
  Memory at_start;
  bool weight_cache = false;
  std::vector<ProgramReport> programs;
};

void print_json(const Report& report);
void print_text(const Report& report);

}  // namespace runner

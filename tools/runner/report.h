// What the runner prints: times and memory, as text or JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/runner/base/memory.h"
#include "tools/runner/engine/value_info.h"
#include "tools/runner/llm/answer.h"

namespace runner {

// The test cases of a bundle, which all went well.
struct BundledReport {
  size_t cases = 0;
  double largest_difference = 0;
};

struct ProgramReport {
  std::string name;  // In the app; "": it is of none.
  std::string program;
  std::vector<std::string> data;
  std::string method;
  double load_ms = 0;
  Memory after_load;
  std::vector<double> run_ms;  // One per repeat.
  Memory after_run;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<std::string> output_files;
  std::string etdump;  // A file; "": none.
  std::optional<BundledReport> bundled;
  std::vector<Answer> answers;
};

struct Report {
  Memory at_start;
  bool is_chat = false;
  bool weight_cache = false;
  std::vector<ProgramReport> programs;
};

void print_json(const Report& report);
void print_text(const Report& report);

}  // namespace runner

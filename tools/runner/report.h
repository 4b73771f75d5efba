// Output of the runner, as text or JSON: times and memory of runs, or the programs with --list.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/runner/base/json.h"
#include "tools/runner/base/os.h"
#include "tools/runner/base/result.h"
#include "tools/runner/calls.h"
#include "tools/runner/conversation.h"

namespace runner {

// Inputs ("input_") or outputs ("output_") of a method.
nlohmann::ordered_json json_of_values(const executorch_app_value* values, size_t count, const std::string& prefix);

// The test cases of a bundle, which all passed.
struct BundledReport {
  size_t cases = 0;
  double largest_difference = 0;
};

struct ProgramReport {
  std::string name;  // In the app; "": not part of an app.
  std::string program;
  std::vector<std::string> data;
  std::string method;
  double load_ms = 0;
  Memory after_load;
  std::vector<double> run_ms;  // One per repeat.
  Memory after_run;
  nlohmann::ordered_json inputs = nlohmann::ordered_json::array();
  nlohmann::ordered_json outputs = nlohmann::ordered_json::array();
  std::vector<std::string> output_files;
  std::string etdump;  // A file; "": none.
  std::optional<BundledReport> bundled;
  Conversation conversation;
};

struct Report {
  Memory at_start;
  bool is_chat = false;
  std::string failure;  // The error that ended the run; "": none.
  bool weight_cache = false;
  std::vector<ProgramReport> programs;
};

Status print_json(const Report& report);
Status print_text(const Report& report);

// Prints programs, methods, inputs and outputs, as text or as JSON.
Status print_listing(const std::vector<OpenProgram>& programs, bool as_json);

}  // namespace runner

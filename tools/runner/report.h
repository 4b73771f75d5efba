// What the runner prints, as text or JSON: times and memory of runs, or the programs with --list.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/executor/method_meta.h>

#include "tools/runner/base/json.h"
#include "tools/runner/base/os.h"
#include "tools/runner/base/result.h"
#include "tools/runner/engine/program.h"
#include "tools/runner/llm/prompter.h"

namespace runner {

// An input or output: a tensor's type and largest shape, or another kind of value.
struct ValueInfo {
  std::string name;  // "input_0"
  std::string kind;  // "tensor", "int", "float", "bool", "string", "none" or "list"
  std::string dtype;
  std::vector<int64_t> shape;
};

std::vector<ValueInfo> inputs_of(const executorch::runtime::MethodMeta& method);
std::vector<ValueInfo> outputs_of(const executorch::runtime::MethodMeta& method);

// Describes values with their current shapes.
std::vector<ValueInfo> infos_of(
    const std::vector<executorch::runtime::EValue>& values,
    const std::string& prefix);

nlohmann::ordered_json to_json(const std::vector<ValueInfo>& values);

// "float32 (2, 16), int".
std::string to_text(const std::vector<ValueInfo>& values);

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
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
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

struct ListedProgram {
  std::string name;  // In the app, or its path.
  std::unique_ptr<Program> program;
};

// Prints programs, methods, inputs and outputs, as text or as JSON.
Status print_listing(const std::vector<ListedProgram>& programs, bool as_json);

}  // namespace runner

#include "tools/runner/entry.h"

#include <unistd.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tools/runner/arguments.h"
#include "tools/runner/base/crash_guard.h"
#include "tools/runner/base/fail.h"
#include "tools/runner/base/memory.h"
#include "tools/runner/engine/program.h"
#include "tools/runner/engine/threads.h"
#include "tools/runner/files/file_check.h"
#include "tools/runner/files/weight_cache.h"
#include "tools/runner/report.h"
#include "tools/runner/tensors/inputs.h"
#include "tools/runner/tensors/outputs.h"

namespace runner {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

ProgramReport report_of(const CheckedFiles& files) {
  ProgramReport report;
  report.program = files.program->path();
  for (const auto& file : files.data) {
    report.data.push_back(file->path());
  }
  return report;
}

void run(const Arguments& arguments, Program& program, size_t number, ProgramReport& report) {
  const Arguments::Program& options = arguments.programs[number];
  set_stage("making the inputs of " + program.path());
  const std::string title = program.title(report.method);
  Method& method = program.method(report.method);
  const Inputs inputs = make_inputs(title, program.meta(report.method), options.inputs);
  std::vector<executorch::runtime::EValue> outputs;
  for (int i = 0; i < arguments.repeat; ++i) {
    const auto start = Clock::now();
    outputs = method.run(inputs.values);
    report.run_ms.push_back(milliseconds_since(start));
  }
  report.after_run = memory_now();
  if (!options.output.empty()) {
    report.outputs = write_outputs(outputs, title, options.output);
  }
}

}  // namespace

void main_of_runner(int count, char** values) {
  own_stderr();
  guard_against_crashes();
  const Arguments arguments = parse_arguments(count, values);
  Report report;
  report.weight_cache = arguments.weight_cache;
  OpenDataFiles open;
  std::vector<CheckedFiles> files;
  std::vector<CacheUse> cache_uses;
  for (const Arguments::Program& program : arguments.programs) {
    set_stage("checking the files of " + program.path);
    files.push_back(check_files(program, arguments.verify, open));
    cache_uses.push_back(files.back().cache_use);
    report.programs.push_back(report_of(files.back()));
  }
  if (arguments.weight_cache) {
    check_weight_cache(cache_uses);
  }
  if (arguments.threads > 0) {
    set_threads(arguments.threads);
  }
  report.at_start = memory_now();
  std::vector<std::unique_ptr<Program>> programs;
  for (size_t i = 0; i < arguments.programs.size(); ++i) {
    ProgramReport& entry = report.programs[i];
    const auto start = Clock::now();
    programs.push_back(std::make_unique<Program>(files[i], MethodOptions{arguments.weight_cache}));
    entry.method = programs.back()->choose_method(arguments.programs[i].method);
    programs.back()->method(entry.method);
    entry.load_ms = milliseconds_since(start);
    entry.after_load = memory_now();
  }
  for (size_t i = 0; i < programs.size(); ++i) {
    run(arguments, *programs[i], i, report.programs[i]);
  }
  set_stage("ending");
  if (arguments.json) {
    print_json(report);
  } else {
    print_text(report);
  }
  // Without destructors: all is done, and the weight cache's own has crashed in some versions.
  _exit(0);
}

}  // namespace runner

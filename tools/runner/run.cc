#include "tools/runner/entry.h"

#include <unistd.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tools/runner/app/chosen.h"
#include "tools/runner/app/listing.h"
#include "tools/runner/arguments.h"
#include "tools/runner/base/crash_guard.h"
#include "tools/runner/base/fail.h"
#include "tools/runner/base/memory.h"
#include "tools/runner/engine/program.h"
#include "tools/runner/engine/runtime_info.h"
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

// Without destructors: all is done, and the weight cache's own has crashed in some versions.
[[noreturn]] void end() {
  set_stage("ending");
  _exit(0);
}

std::vector<CheckedFiles> check_all(const Chosen& chosen, const Arguments& arguments) {
  OpenDataFiles open;
  std::vector<CheckedFiles> checked;
  std::vector<CacheUse> cache_uses;
  for (const ChosenProgram& program : chosen.programs) {
    set_stage("checking the files of " + program.files.program);
    checked.push_back(check_files(program.files, arguments.verify, open));
    cache_uses.push_back(checked.back().cache_use);
  }
  if (arguments.weight_cache) {
    check_weight_cache(cache_uses);
  }
  return checked;
}

[[noreturn]] void list(const Chosen& chosen, const std::vector<CheckedFiles>& files, bool as_json) {
  std::vector<ListedProgram> listed;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string& name = chosen.programs[i].name;
    listed.push_back({name.empty() ? chosen.programs[i].files.program : name,
                      std::make_unique<Program>(files[i], MethodOptions{})});
  }
  print_listing(listed, as_json);
  end();
}

ProgramReport report_of(const ChosenProgram& program, const CheckedFiles& files) {
  ProgramReport report;
  report.name = program.name;
  report.program = files.program->path();
  for (const auto& file : files.data) {
    report.data.push_back(file->path());
  }
  return report;
}

void run(
    const Arguments::Program& options,
    int repeat,
    Program& program,
    ProgramReport& report) {
  set_stage("making the inputs of " + program.path());
  const std::string title = program.title(report.method);
  Method& method = program.method(report.method);
  const Inputs inputs = make_inputs(title, program.meta(report.method), options.inputs);
  report.inputs = infos_of(inputs.values, "input_");
  std::vector<executorch::runtime::EValue> outputs;
  for (int i = 0; i < repeat; ++i) {
    const auto start = Clock::now();
    outputs = method.run(inputs.values);
    report.run_ms.push_back(milliseconds_since(start));
  }
  report.after_run = memory_now();
  report.outputs = infos_of(outputs, "output_");
  if (!options.output.empty()) {
    report.output_files = write_outputs(outputs, title, options.output);
  }
}

}  // namespace

void main_of_runner(int count, char** values) {
  own_stderr();
  guard_against_crashes();
  const Arguments arguments = parse_arguments(count, values);
  if (arguments.runtime_info) {
    print_runtime_info();
    end();
  }
  const Chosen chosen = choose_programs(arguments);
  const std::vector<CheckedFiles> files = check_all(chosen, arguments);
  if (arguments.list) {
    list(chosen, files, arguments.json);
  }
  if (arguments.threads > 0) {
    set_threads(arguments.threads);
  }
  Report report;
  report.weight_cache = arguments.weight_cache;
  report.at_start = memory_now();
  std::vector<std::unique_ptr<Program>> programs;
  for (size_t i = 0; i < files.size(); ++i) {
    ProgramReport entry = report_of(chosen.programs[i], files[i]);
    const auto start = Clock::now();
    programs.push_back(std::make_unique<Program>(files[i], MethodOptions{arguments.weight_cache}));
    entry.method = programs.back()->choose_method(chosen.programs[i].options.method);
    programs.back()->method(entry.method);
    entry.load_ms = milliseconds_since(start);
    entry.after_load = memory_now();
    report.programs.push_back(std::move(entry));
  }
  for (size_t i = 0; i < programs.size(); ++i) {
    run(chosen.programs[i].options, arguments.repeat, *programs[i], report.programs[i]);
  }
  if (arguments.json) {
    print_json(report);
  } else {
    print_text(report);
  }
  end();
}

}  // namespace runner

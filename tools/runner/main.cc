// Runs ExecuTorch programs, several in one process; see docs/runner.md.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "tools/runner/arguments.h"
#include "tools/runner/entry.h"
#include "tools/runner/fail.h"
#include "tools/runner/file_check.h"
#include "tools/runner/memory.h"
#include "tools/runner/npy.h"
#include "tools/runner/program.h"
#include "tools/runner/report.h"
#include "tools/runner/values.h"
#include "tools/runner/weight_cache.h"

namespace runner {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::vector<std::string> write_outputs(
    const std::vector<executorch::runtime::EValue>& outputs,
    const Program& program,
    const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    fail(folder + " can't be made: " + error.message() + ".");
  }
  std::vector<std::string> files;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = "output_" + std::to_string(i);
    files.push_back(folder + "/" + name + ".npy");
    write_npy(files.back(), to_array(outputs[i], program.path() + ": " + name));
  }
  return files;
}

void run(const Arguments& arguments, Program& program, size_t number, ProgramReport& report) {
  const Arguments::Program& options = arguments.programs[number];
  const Inputs inputs = program.inputs(options.inputs);
  std::vector<executorch::runtime::EValue> outputs;
  for (int i = 0; i < arguments.repeat; ++i) {
    const auto start = Clock::now();
    outputs = program.run(inputs);
    report.run_ms.push_back(milliseconds_since(start));
  }
  report.after_run = memory_now();
  if (!options.output.empty()) {
    report.outputs = write_outputs(outputs, program, options.output);
  }
}

}  // namespace

[[noreturn]] void main_of_runner(int count, char** values) {
  own_stderr();
  guard_against_crashes();
  const Arguments arguments = parse_arguments(count, values);
  Report report;
  report.weight_cache = arguments.weight_cache;
  std::vector<CacheUse> cache_uses;
  for (const Arguments::Program& program : arguments.programs) {
    set_stage("checking the files of " + program.path);
    ProgramReport entry;
    entry.program = program.path;
    CheckedFiles checked = check_files(program, arguments.verify);
    entry.data = std::move(checked.data);
    report.programs.push_back(entry);
    cache_uses.push_back(std::move(checked.cache_use));
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
    programs.push_back(std::make_unique<Program>(
        arguments.programs[i], entry.data, arguments.weight_cache));
    entry.load_ms = milliseconds_since(start);
    entry.after_load = memory_now();
    entry.method = programs.back()->method();
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
  if (fflush(stdout) != 0) {
    fail("standard output can't be written.");
  }
  // Without destructors: all is done, and the weight cache's own has crashed in some versions.
  _exit(0);
}

}  // namespace runner

int main(int count, char** values) {
  runner::main_of_runner(count, values);
}

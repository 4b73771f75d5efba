#include "tools/runner/entry.h"

#include <unistd.h>

#include <memory>
#include <vector>

#include "tools/runner/app/chosen.h"
#include "tools/runner/app/listing.h"
#include "tools/runner/arguments.h"
#include "tools/runner/base/clock.h"
#include "tools/runner/base/crash_guard.h"
#include "tools/runner/base/fail.h"
#include "tools/runner/base/memory.h"
#include "tools/runner/bundled/bundled_check.h"
#include "tools/runner/engine/program.h"
#include "tools/runner/engine/recorder.h"
#include "tools/runner/engine/runtime_info.h"
#include "tools/runner/engine/threads.h"
#include "tools/runner/files/file_check.h"
#include "tools/runner/files/weight_cache.h"
#include "tools/runner/llm/prompt.h"
#include "tools/runner/report.h"
#include "tools/runner/tensors/input_files.h"
#include "tools/runner/tensors/outputs.h"

namespace runner {
namespace {

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

// A program of the command line, and what is to be said of it.
struct Loaded {
  const ChosenProgram* chosen;
  const CheckedFiles* files;
  ProgramReport report;
  std::unique_ptr<Recorder> recorder;
  std::unique_ptr<Program> program;  // nullptr: a bundle's is loaded for each of its cases.

  MethodOptions method_options(const Arguments& arguments) const {
    return {arguments.weight_cache, recorder == nullptr ? nullptr : recorder->tracer()};
  }
};

Loaded load(const ChosenProgram& chosen, const CheckedFiles& files, const Arguments& arguments) {
  Loaded loaded = {&chosen, &files, report_of(chosen, files), nullptr, nullptr};
  if (!chosen.options.etdump.empty()) {
    loaded.recorder = make_recorder();
  }
  if (chosen.files.is_bundled) {
    return loaded;
  }
  const auto start = now();
  loaded.program = std::make_unique<Program>(files, loaded.method_options(arguments));
  if (!arguments.answers()) {
    loaded.report.method = loaded.program->choose_method(chosen.options.method);
    loaded.program->method(loaded.report.method);
  }
  loaded.report.load_ms = milliseconds_since(start);
  loaded.report.after_load = memory_now();
  return loaded;
}

void run_method(const Arguments::Program& options, int repeat, Loaded& loaded) {
  Program& program = *loaded.program;
  ProgramReport& report = loaded.report;
  set_stage("making the inputs of " + program.path());
  const std::string title = program.title(report.method);
  Method& method = program.method(report.method);
  const auto meta = program.meta(report.method);
  const Inputs inputs = make_inputs(
      title,
      meta,
      options.inputs.empty() ? make_up_inputs(title, meta)
                             : read_inputs(options.inputs, title, meta));
  report.inputs = infos_of(inputs.values, "input_");
  std::vector<executorch::runtime::EValue> outputs;
  for (int i = 0; i < repeat; ++i) {
    const auto start = now();
    outputs = method.run(inputs.values);
    report.run_ms.push_back(milliseconds_since(start));
  }
  report.after_run = memory_now();
  report.outputs = infos_of(outputs, "output_");
  if (!options.output.empty()) {
    report.output_files = write_outputs(outputs, title, options.output, options.output_format);
  }
}

// Of an app whose programs are not named, the only one that answers prompts.
void keep_language_model(const Arguments& arguments, std::vector<Loaded>& loaded) {
  if (!arguments.answers() || !arguments.programs.empty()) {
    return;
  }
  std::string names;
  std::vector<Loaded> models;
  for (Loaded& one : loaded) {
    if (LanguageModel::is_one(*one.program)) {
      names += (names.empty() ? "" : ", ") + one.report.name;
      models.push_back(std::move(one));
    }
  }
  if (models.size() != 1) {
    fail(models.empty() ? "--prompt: no program of the app is a language model."
                        : "--prompt: there are several language models: " + names +
                 "; choose one with --program.");
  }
  loaded = std::move(models);
}

void run(const Arguments& arguments, const Prompter* prompter, Loaded& loaded) {
  const Arguments::Program& options = loaded.chosen->options;
  if (prompter != nullptr) {
    loaded.report.answers = prompter->converse(*loaded.program);
    loaded.report.after_run = memory_now();
  } else if (options.is_bundled) {
    const Tolerance tolerance = {arguments.atol, arguments.rtol};
    check_bundled(*loaded.files, options.method, loaded.method_options(arguments), tolerance, loaded.report);
    loaded.report.after_run = memory_now();
  } else {
    run_method(options, arguments.repeat, loaded);
  }
  if (loaded.recorder != nullptr) {
    loaded.recorder->write(options.etdump);
    loaded.report.etdump = options.etdump;
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
  check_prompt_options(arguments);
  const Chosen chosen = choose_programs(arguments);
  const std::vector<CheckedFiles> files = check_all(chosen, arguments);
  if (arguments.list) {
    list(chosen, files, arguments.json);
  }
  if (arguments.threads > 0) {
    set_threads(arguments.threads);
  }
  const auto prompter =
      arguments.answers() ? std::make_unique<Prompter>(arguments, chosen.app) : nullptr;
  Report report;
  report.is_chat = arguments.chat;
  report.weight_cache = arguments.weight_cache;
  report.at_start = memory_now();
  std::vector<Loaded> loaded;
  for (size_t i = 0; i < files.size(); ++i) {
    loaded.push_back(load(chosen.programs[i], files[i], arguments));
  }
  keep_language_model(arguments, loaded);
  for (Loaded& one : loaded) {
    run(arguments, prompter.get(), one);
    report.programs.push_back(std::move(one.report));
  }
  if (arguments.json) {
    print_json(report);
  } else {
    print_text(report);
  }
  end();
}

}  // namespace runner

// The command line, a program on the C interface: it opens, loads, runs and chats as an app does. Beside that it uses
// only what is of the process (memory, errors, stages), and readers of its own files: arrays, and the cases of a bundle.
//
// At its end it closes nothing: the process ends, and the weight cache's destructor crashes in some versions of the
// runtime.

#include "tools/runner/entry.h"

#include <unistd.h>

#include <vector>

#include "tools/runner/api/tensors.h"
#include "tools/runner/arguments.h"
#include "tools/runner/array_files.h"
#include "tools/runner/base/files.h"
#include "tools/runner/base/os.h"
#include "tools/runner/base/process.h"
#include "tools/runner/bundled_check.h"
#include "tools/runner/calls.h"
#include "tools/runner/conversation.h"
#include "tools/runner/engine/runtime.h"
#include "tools/runner/report.h"

namespace runner {
namespace {

const char* text_or_null(const std::string& text) {
  return text.empty() ? nullptr : text.c_str();
}

std::vector<const char*> pointers_of(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) {
    pointers.push_back(text.c_str());
  }
  return pointers;
}

// --app, or --manifest before the first --program; "": neither.
Result<std::string> app_path(const Arguments& arguments) {
  const std::string& manifest = arguments.leading.manifest;
  if (manifest.empty()) {
    return arguments.app;
  }
  if (!arguments.app.empty()) {
    return error("--app and a --manifest before the first --program both name an app; use one of them.");
  }
  if (!arguments.programs.empty()) {
    return error("--manifest stands before the first --program, which it must follow; --app names an app.");
  }
  return manifest;
}

// The first option of a single program before the first --program, without --manifest; "": none.
std::string leading_option(const Arguments& arguments) {
  Arguments::Program leading = arguments.leading;
  leading.manifest = "";
  return option_of(leading);
}

// Opens what the command line names. The app stays open.
Result<executorch_app*> open_programs(const Arguments& arguments) {
  const std::string path = TRY(app_path(arguments));
  if (!arguments.programs.empty() && !leading_option(arguments).empty()) {
    return error(leading_option(arguments) + " stands before the first --program, which it must follow.");
  }
  std::vector<std::vector<const char*>> data;
  std::vector<executorch_app_program_files> programs;
  for (const Arguments::Program& program : arguments.programs) {
    data.push_back(pointers_of(program.data));
    programs.push_back(
        {program.given.c_str(), text_or_null(program.manifest), data.back().data(), data.back().size(),
         program.is_bundled});
  }
  const std::vector<const char*> leading_data = pointers_of(arguments.leading.data);
  executorch_app_open_options options = {};
  options.data = leading_data.data();
  options.data_count = leading_data.size();
  options.verify = arguments.verify;
  options.weight_cache = arguments.weight_cache;
  options.no_weight_cache = arguments.no_weight_cache;
  options.programs = programs.data();
  options.program_count = programs.size();
  const std::vector<const char*> variants = pointers_of(arguments.variants);
  options.variants = variants.data();
  options.variant_count = variants.size();
  const std::vector<const char*> device = pointers_of(arguments.device);
  options.device = device.data();
  options.device_count = device.size();
  options.state = text_or_null(arguments.state);
  executorch_app* app = nullptr;
  TRY(call(executorch_app_open, text_or_null(path), &options, &app));
  return app;
}

// The options of each program, in the app's order.
Result<std::vector<Arguments::Program>> options_of(const Arguments& arguments, const executorch_app* app) {
  if (!arguments.programs.empty()) {
    return arguments.programs;
  }
  const size_t count = executorch_app_program_count(app);
  std::vector<Arguments::Program> all(count, arguments.leading);
  for (size_t i = 0; count > 1 && i < count; ++i) {
    if (!all[i].output.empty()) {
      all[i].output += "/" + std::string(executorch_app_program_name(app, i));
    }
  }
  Arguments::Program others = arguments.leading;
  others.manifest = "";
  others.output = "";
  others.output_format = "";
  if (count > 1 && !option_of(others).empty()) {
    return error(option_of(others) + " is for one program, and " + executorch_app_label(app) +
         " has several; put it after a --program NAME.");
  }
  return all;
}

Status list(executorch_app* app, bool as_json) {
  std::vector<OpenProgram> programs;
  for (size_t i = 0; i < executorch_app_program_count(app); ++i) {
    programs.push_back({app, i, nullptr});
    TRY(call(executorch_app_open_session_at, app, i, nullptr, &programs.back().session));
  }
  return print_listing(programs, as_json);
}

ProgramReport report_of(const executorch_app* app, size_t index) {
  ProgramReport report;
  const std::string name = executorch_app_program_name(app, index);
  report.program = executorch_app_program_path(app, index);
  report.name = name == report.program ? "" : name;
  for (size_t i = 0; executorch_app_data_path(app, index, i) != nullptr; ++i) {
    report.data.push_back(executorch_app_data_path(app, index, i));
  }
  return report;
}

// A program of the command line, its options, and its report.
struct Loaded {
  OpenProgram program;
  Arguments::Program options;
  ProgramReport report;
};

Result<Loaded> load(
    executorch_app* app,
    size_t index,
    const Arguments::Program& options,
    const Arguments& arguments) {
  Loaded loaded = {{app, index, nullptr}, options, report_of(app, index)};
  executorch_app_session_options session_options = {};
  session_options.records_events = !options.etdump.empty();
  executorch_app_session*& session = loaded.program.session;
  const auto start = now();
  TRY(call(executorch_app_open_session_at, app, index, &session_options, &session));
  if (options.is_bundled) {
    return loaded;
  }
  if (!arguments.answers()) {
    executorch_app_method method;
    TRY(call(executorch_app_describe_method, session, text_or_null(options.method), &method));
    loaded.report.method = method.name;
    TRY(call(executorch_app_load_method, session, method.name));
  }
  loaded.report.load_ms = milliseconds_since(start);
  loaded.report.after_load = memory_now();
  return loaded;
}

// Keeps an app's only language model, if the command line names no program.
Status keep_language_model(const Arguments& arguments, std::vector<Loaded>& loaded) {
  if (!arguments.answers() || !arguments.programs.empty()) {
    return {};
  }
  std::string names;
  std::vector<Loaded> models;
  for (Loaded& candidate : loaded) {
    if (executorch_app_is_language_model(candidate.program.session)) {
      names += (names.empty() ? "" : ", ") + candidate.report.name;
      models.push_back(std::move(candidate));
    } else {
      executorch_app_close_session(candidate.program.session);
    }
  }
  if (models.size() != 1) {
    return error(models.empty() ? "--prompt: no program of the app is a language model."
                        : "--prompt: there are several language models: " + names +
                 "; choose one with --program.");
  }
  loaded = std::move(models);
  return {};
}

// The inputs of a method: of texts, of files, or examples. `arrays` keeps those that the tokenizer does not.
Result<std::vector<executorch_app_tensor>> make_inputs(
    const Loaded& loaded,
    executorch_app_tokenizer* tokenizer,
    const executorch_app_method& method,
    std::vector<NamedArray>& arrays) {
  const Arguments::Program& options = loaded.options;
  if (!options.texts.empty()) {
    const std::vector<const char*> texts = pointers_of(options.texts);
    const executorch_app_tensor* inputs = nullptr;
    size_t count = 0;
    TRY(call(
        executorch_app_text_inputs, tokenizer, loaded.program.session, method.name, texts.data(), texts.size(),
        &inputs, &count));
    return std::vector<executorch_app_tensor>(inputs, inputs + count);
  }
  const std::string title = loaded.program.title(method.name);
  arrays = TRY(options.inputs.empty() ? example_inputs(title, method) : read_inputs(options.inputs, title, method));
  std::vector<executorch_app_tensor> inputs;
  for (const auto& [array, name] : arrays) {
    inputs.push_back(tensor_of(array, name.c_str()));
  }
  return inputs;
}

Status run_method(const Loaded& loaded, executorch_app_tokenizer* tokenizer, int repeat, ProgramReport& report) {
  executorch_app_session* const session = loaded.program.session;
  set_stage("creating the inputs of " + report.program);
  executorch_app_method method;
  TRY(call(executorch_app_describe_method, session, report.method.c_str(), &method));
  std::vector<NamedArray> arrays;
  const std::vector<executorch_app_tensor> inputs = TRY(make_inputs(loaded, tokenizer, method, arrays));
  const std::string& folder = loaded.options.output;
  const executorch_app_tensor* outputs = nullptr;
  size_t count = 0;
  for (int i = 0; i < repeat; ++i) {
    const bool is_written = !folder.empty() && i + 1 == repeat;
    TRY(call(
        executorch_app_run, session, method.name, inputs.data(), inputs.size(), is_written ? &outputs : nullptr,
        &count));
    report.run_ms.push_back(executorch_app_last_run(session, nullptr));
  }
  report.after_run = memory_now();
  executorch_app_last_run(session, &method);
  report.inputs = json_of_values(method.inputs, method.input_count, "input_");
  report.outputs = json_of_values(method.outputs, method.output_count, "output_");
  if (!folder.empty()) {
    report.output_files = TRY(write_outputs(outputs, count, folder, loaded.options.output_format));
  }
  return {};
}

Status run(const Arguments& arguments, executorch_app_tokenizer* tokenizer, const Loaded& loaded, ProgramReport& report) {
  const Arguments::Program& options = loaded.options;
  if (arguments.answers()) {
    TRY(converse(arguments, loaded.program, report.conversation));
    report.after_run = memory_now();
  } else if (options.is_bundled) {
    TRY(check_bundled(loaded.program, options.method, {arguments.atol, arguments.rtol}, report));
    report.after_run = memory_now();
  } else {
    TRY(run_method(loaded, tokenizer, arguments.repeat, report));
  }
  if (!options.etdump.empty()) {
    TRY(call(executorch_app_write_events, loaded.program.session, options.etdump.c_str()));
    report.etdump = options.etdump;
  }
  return {};
}

// Adds reports before it fills them in: a report that ends with an error keeps its answers.
Status run_all(
    const Arguments& arguments,
    executorch_app_tokenizer* tokenizer,
    const std::vector<Loaded>& loaded,
    Report& report) {
  for (const Loaded& program : loaded) {
    report.programs.push_back(program.report);
    TRY(run(arguments, tokenizer, program, report.programs.back()));
  }
  return {};
}

bool has_answers(const Report& report) {
  bool has_any = report.is_chat;
  for (const ProgramReport& program : report.programs) {
    has_any = has_any || !program.conversation.answers.empty();
  }
  return has_any;
}

Status check_all_answered(const Report& report) {
  size_t turns = 0;
  size_t unanswered = 0;
  for (const ProgramReport& program : report.programs) {
    turns += program.conversation.turns();
    unanswered += program.conversation.unanswered.size();
  }
  if (unanswered > 0) {
    return error("--chat: " + std::to_string(unanswered) + " of " + std::to_string(turns) +
                 " prompts got no answer.");
  }
  return {};
}

// Answers before a failure must not be lost: JSON contains them and the failure.
Status run_and_report(
    const Arguments& arguments,
    executorch_app_tokenizer* tokenizer,
    const std::vector<Loaded>& loaded,
    Report& report) {
  Status done = run_all(arguments, tokenizer, loaded, report);
  if (!done.ok()) {
    if (arguments.json && has_answers(report)) {
      report.failure = done.sentence();
      TRY(print_json(report));
    }
    return done;
  }
  TRY(arguments.json ? print_json(report) : print_text(report));
  return check_all_answered(report);
}

// Of --text; nullptr: no program reads texts.
Result<executorch_app_tokenizer*> open_tokenizer(
    const Arguments& arguments,
    const executorch_app* app,
    const std::vector<Arguments::Program>& programs) {
  executorch_app_tokenizer* tokenizer = nullptr;
  for (const Arguments::Program& program : programs) {
    if (!program.texts.empty() && tokenizer == nullptr) {
      TRY(call(
          executorch_app_open_tokenizer, app, text_or_null(arguments.tokenizer), arguments.parse_special, &tokenizer));
    }
  }
  return tokenizer;
}

Status run_command_line(int count, char** values) {
  const Arguments arguments = TRY(parse_arguments(count, values));
  if (arguments.help) {
    return write_to_stdout(kUsage);
  }
  if (arguments.runtime_info) {
    return write_to_stdout(runtime_info());
  }
  TRY(check_prompt_options(arguments));
  executorch_app* const app = TRY(open_programs(arguments));
  const std::vector<Arguments::Program> programs = TRY(options_of(arguments, app));
  if (arguments.list) {
    return list(app, arguments.json);
  }
  if (arguments.threads > 0) {
    TRY(call(executorch_app_set_threads, static_cast<size_t>(arguments.threads)));
  }
  executorch_app_tokenizer* const tokenizer = TRY(open_tokenizer(arguments, app, programs));
  Report report;
  report.is_chat = arguments.chat;
  report.weight_cache = executorch_app_has_weight_cache(app);
  report.at_start = memory_now();
  std::vector<Loaded> loaded;
  for (size_t i = 0; i < programs.size(); ++i) {
    loaded.push_back(TRY(load(app, i, programs[i], arguments)));
  }
  TRY(keep_language_model(arguments, loaded));
  return run_and_report(arguments, tokenizer, loaded, report);
}

}  // namespace
}  // namespace runner

void executorch_app_main(int count, char** values) {
  runner::guard_process();
  const runner::Status status = runner::run_command_line(count, values);
  runner::set_stage("ending");
  if (!status.ok()) {
    runner::print_error(status.sentence());
  }
  _exit(status.ok() ? 0 : 1);
}

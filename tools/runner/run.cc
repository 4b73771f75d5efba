#include "tools/runner/entry.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tools/runner/app/open_app.h"
#include "tools/runner/arguments.h"
#include "tools/runner/base/files.h"
#include "tools/runner/base/os.h"
#include "tools/runner/base/process.h"
#include "tools/runner/bundled/bundled_check.h"
#include "tools/runner/engine/program.h"
#include "tools/runner/engine/runtime.h"
#include "tools/runner/llm/prompter.h"
#include "tools/runner/llm/text_inputs.h"
#include "tools/runner/report.h"
#include "tools/runner/tensors/inputs.h"
#include "tools/runner/tensors/outputs.h"
#include "tools/runner/update/apply_update.h"
#include "tools/runner/update/signature.h"

namespace runner {
namespace {

Status list(const Chosen& chosen, const std::vector<CheckedFiles>& files, bool as_json) {
  std::vector<ListedProgram> listed;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string& name = chosen.programs[i].name;
    listed.push_back({name.empty() ? chosen.programs[i].files.program : name,
                      TRY(Program::load(files[i], MethodOptions{}))});
  }
  return print_listing(listed, as_json);
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

// A program of the command line, and its report.
struct Loaded {
  const ChosenProgram* chosen;
  const CheckedFiles* files;
  bool weight_cache;
  ProgramReport report;
  std::unique_ptr<Recorder> recorder;
  std::unique_ptr<Program> program;  // nullptr: each of a bundle's cases loads its program.

  MethodOptions method_options() const {
    return {weight_cache, recorder == nullptr ? nullptr : recorder->tracer()};
  }
};

Result<Loaded> load(
    const ChosenProgram& chosen,
    const CheckedFiles& files,
    bool weight_cache,
    const Arguments& arguments) {
  Loaded loaded = {&chosen, &files, weight_cache, report_of(chosen, files), nullptr, nullptr};
  if (!chosen.options.etdump.empty()) {
    loaded.recorder = TRY(make_recorder());
  }
  if (chosen.files.is_bundled) {
    return loaded;
  }
  const auto start = now();
  loaded.program = TRY(Program::load(files, loaded.method_options()));
  if (!arguments.answers()) {
    loaded.report.method = TRY(loaded.program->choose_method(chosen.options.method));
    TRY(loaded.program->method(loaded.report.method));
  }
  loaded.report.load_ms = milliseconds_since(start);
  loaded.report.after_load = memory_now();
  return loaded;
}

Status run_method(
    const Arguments::Program& options,
    const TextReader* reader,
    int repeat,
    Program& program,
    ProgramReport& report) {
  set_stage("creating the inputs of " + program.path());
  const std::string title = program.title(report.method);
  Method& method = *TRY(program.method(report.method));
  const auto meta = TRY(program.meta(report.method));
  const std::vector<GivenInput> given = TRY(
      !options.texts.empty()      ? reader->inputs(options.texts, title, meta)
          : !options.inputs.empty() ? read_inputs(options.inputs, title, meta)
                                    : example_inputs(title, meta));
  const Inputs inputs = TRY(make_inputs(title, meta, given));
  report.inputs = infos_of(inputs.values, "input_");
  std::vector<executorch::runtime::EValue> outputs;
  for (int i = 0; i < repeat; ++i) {
    const auto start = now();
    outputs = TRY(method.run(inputs.values));
    report.run_ms.push_back(milliseconds_since(start));
  }
  report.after_run = memory_now();
  report.outputs = infos_of(outputs, "output_");
  if (!options.output.empty()) {
    report.output_files =
        TRY(write_outputs(outputs, title, options.output, options.output_format));
  }
  return {};
}

// Keeps an app's only language model, if the command line names no program.
Status keep_language_model(const Arguments& arguments, std::vector<Loaded>& loaded) {
  if (!arguments.answers() || !arguments.programs.empty()) {
    return {};
  }
  std::string names;
  std::vector<Loaded> models;
  for (Loaded& candidate : loaded) {
    if (LanguageModel::is_language_model(*candidate.program)) {
      names += (names.empty() ? "" : ", ") + candidate.report.name;
      models.push_back(std::move(candidate));
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

// What reads text; nullptr: nothing does.
struct Readers {
  std::unique_ptr<Prompter> prompter;  // Of language models.
  std::unique_ptr<TextReader> texts;
};

Status run(const Arguments& arguments, const Readers& readers, Loaded& loaded, ProgramReport& report) {
  const Arguments::Program& options = loaded.chosen->options;
  if (readers.prompter != nullptr) {
    TRY(readers.prompter->converse(*loaded.program, report.conversation));
    report.after_run = memory_now();
  } else if (options.is_bundled) {
    const Tolerance tolerance = {arguments.atol, arguments.rtol};
    TRY(check_bundled(
        *loaded.files, options.method, loaded.method_options(), tolerance, report));
    report.after_run = memory_now();
  } else {
    TRY(run_method(options, readers.texts.get(), arguments.repeat, *loaded.program, report));
  }
  if (loaded.recorder != nullptr) {
    TRY(loaded.recorder->write(options.etdump));
    report.etdump = options.etdump;
  }
  return {};
}

// Adds reports before it fills them in: a report that ends with an error keeps its answers.
Status run_all(
    const Arguments& arguments,
    const Readers& readers,
    std::vector<Loaded>& loaded,
    Report& report) {
  for (Loaded& program : loaded) {
    report.programs.push_back(std::move(program.report));
    TRY(run(arguments, readers, program, report.programs.back()));
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
    const Readers& readers,
    std::vector<Loaded>& loaded,
    Report& report) {
  Status done = run_all(arguments, readers, loaded, report);
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

bool has_texts(const Chosen& chosen) {
  return std::any_of(chosen.programs.begin(), chosen.programs.end(), [](const ChosenProgram& program) {
    return !program.options.texts.empty();
  });
}

// A key, or the text of its file; "": none.
Result<std::string> public_key(const Arguments& arguments) {
  if (!is_file(arguments.public_key)) {
    return arguments.public_key;
  }
  const MappedFile file = TRY(MappedFile::open(arguments.public_key, "--public_key"));
  return std::string(file.text());
}

// Of --app, or the one that contains the runner.
std::string app_folder(const Arguments& arguments) {
  const bool is_folder_or_own = arguments.app.empty() || is_folder(arguments.app);
  return !is_folder_or_own ? beside(arguments.app, ".") : arguments.app.empty() ? beside(own_path(), ".") : arguments.app;
}

Status update(const Arguments& arguments, const std::string& key) {
  set_stage("applying " + arguments.apply_update);
  const std::string folder = app_folder(arguments);
  UpdateFailure failure = UpdateFailure::kNotWritten;
  const UpdateResult result =
      TRY(apply_update(folder, arguments.apply_update, key.empty() ? nullptr : key.c_str(), failure));
  return write_to_stdout(
      result.is_current ? folder + ": has " + result.label + " of this update already.\n"
                        : folder + ": updated to " + result.label + ": " + std::to_string(result.files) +
              " files written, " + std::to_string(result.written) + " bytes.\n");
}

// Everything that a command line loads.
struct Invocation {
  Arguments arguments;
  App app;
  Readers readers;
  std::vector<Loaded> loaded;
};

Status run_command_line(int count, char** values, Invocation& invocation) {
  Arguments& arguments = invocation.arguments;
  arguments = TRY(parse_arguments(count, values));
  if (arguments.help) {
    return write_to_stdout(kUsage);
  }
  if (arguments.runtime_info) {
    return write_to_stdout(runtime_info());
  }
  TRY(check_prompt_options(arguments));
  const std::string key = TRY(public_key(arguments));
  if (!arguments.apply_update.empty()) {
    return update(arguments, key);
  }
  if (!key.empty()) {
    set_stage("checking the signature of the app");
    TRY(check_signed_folder(app_folder(arguments), key));
  }
  invocation.app = TRY(open_app(arguments));
  const auto& [chosen, files, weight_cache] = invocation.app;
  if (arguments.list) {
    return list(chosen, files, arguments.json);
  }
  if (arguments.threads > 0) {
    TRY(set_threads(arguments.threads));
  }
  if (arguments.answers()) {
    invocation.readers.prompter = TRY(Prompter::create(arguments, chosen.app));
  }
  if (has_texts(chosen)) {
    const std::string tokenizer = TRY(tokenizer_path(arguments, chosen.app));
    invocation.readers.texts =
        std::make_unique<TextReader>(TRY(TextReader::read(tokenizer, arguments.parse_special)));
  }
  Report report;
  report.is_chat = arguments.chat;
  report.weight_cache = weight_cache;
  report.at_start = memory_now();
  std::vector<Loaded>& loaded = invocation.loaded;
  for (size_t i = 0; i < files.size(); ++i) {
    loaded.push_back(TRY(load(chosen.programs[i], files[i], weight_cache, arguments)));
  }
  TRY(keep_language_model(arguments, loaded));
  return run_and_report(arguments, invocation.readers, loaded, report);
}

}  // namespace

void main_of_runner(int count, char** values) {
  guard_process();
  // Never destroyed: the process ends, and the weight cache's destructor crashes in some versions.
  auto* const invocation = new Invocation;
  const Status status = run_command_line(count, values, *invocation);
  set_stage("ending");
  if (!status.ok()) {
    print_error(status.sentence());
  }
  _exit(status.ok() ? 0 : 1);
}

}  // namespace runner

#include "tools/runner/api/executorch_app.h"

#include <algorithm>

#include "tools/runner/api/handles.h"
#include "tools/runner/api/tensors.h"
#include "tools/runner/base/lock.h"
#include "tools/runner/base/os.h"
#include "tools/runner/llm/language_model.h"
#include "tools/runner/llm/text_files.h"
#include "tools/runner/tensors/inputs.h"
#include "tools/runner/tensors/outputs.h"

namespace runner {
namespace {

// More than machines have cores; other processes need threads, too.
constexpr size_t kMostThreads = 1024;

const std::string& name_of(const ChosenProgram& program) {
  return program.name.empty() ? program.files.program : program.name;
}

// Adds a use, unless it packs what another one packs.
void remember(const CacheUse& use, std::vector<CacheUse>& uses) {
  const bool is_known = std::any_of(uses.begin(), uses.end(), [&use](const CacheUse& known) {
    return use.manifest && use.manifest->packed && known.manifest && known.manifest->packed == use.manifest->packed;
  });
  if (!is_known) {
    uses.push_back(use);
  }
}

std::vector<std::string> texts_of(const char* const* texts, size_t count) {
  return std::vector<std::string>(texts, texts + count);
}

OpenOptions::Program program_of(const executorch_app_program_files& files) {
  return {text_or_empty(files.program), files.bundled, text_or_empty(files.manifest), texts_of(files.data, files.data_count)};
}

OpenOptions open_options(const char* path, const executorch_app_open_options& given) {
  OpenOptions options;
  if (path != nullptr && ends_with(path, ".pte")) {
    options.programs.push_back(program_of({path, given.manifest, given.data, given.data_count, false}));
  } else {
    options.app = text_or_empty(path);
    options.data = texts_of(given.data, given.data_count);
  }
  for (size_t i = 0; i < given.program_count; ++i) {
    options.programs.push_back(program_of(given.programs[i]));
  }
  options.verify = given.verify;
  options.weight_cache = given.weight_cache;
  options.no_weight_cache = given.no_weight_cache;
  return options;
}

Result<ArrayView> array_of(const executorch_app_tensor& tensor, const std::string& what) {
  const Dtype* dtype = dtype_of_name(text_or_empty(tensor.dtype));
  if (dtype == nullptr) {
    return error(
        what + ": dtype: got \"" + text_or_empty(tensor.dtype) + "\", expected one of: " + dtype_names() + ".");
  }
  if (tensor.rank > kMostDimensions || (tensor.rank > 0 && tensor.shape == nullptr)) {
    return error(
        what + ": rank: got " + std::to_string(tensor.rank) + ", expected a shape of at most " +
        std::to_string(kMostDimensions) + " dimensions.");
  }
  std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.rank);
  const int64_t size = bytes_of(*dtype, shape);
  if (size < 0 || tensor.size != static_cast<uint64_t>(size) || (size > 0 && tensor.data == nullptr)) {
    return error(
        what + ": size: got " + std::to_string(tensor.size) + " bytes, expected those of " + dtype->name + " " +
        shape_text(shape) + ".");
  }
  return ArrayView{dtype, std::move(shape), static_cast<const uint8_t*>(tensor.data), tensor.size};
}

Result<Inputs> copied_inputs(
    const std::string& title,
    const executorch::runtime::MethodMeta& meta,
    const executorch_app_tensor* tensors,
    size_t count) {
  std::vector<GivenInput> given;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = tensors[i].name == nullptr ? "input_" + std::to_string(i) : tensors[i].name;
    given.push_back({TRY(array_of(tensors[i], title + ": " + name)), name});
  }
  return make_inputs(title, meta, given);
}

// A damaged program may return one large tensor many times.
Status check_size(const std::vector<executorch::runtime::EValue>& outputs, const std::string& title) {
  uint64_t left = available_memory();
  for (const auto& output : outputs) {
    const uint64_t size = output.isTensor() ? output.toTensor().nbytes() : 0;
    if (size > left) {
      return error(title + ": its outputs have more bytes than there is memory; the program is damaged, or too big.");
    }
    left -= size;
  }
  return {};
}

Status run_method(
    executorch_app_session& session,
    const std::string& name,
    Method& method,
    const Inputs& inputs,
    bool copies_outputs) {
  session.outputs.clear();
  session.arrays.clear();
  const auto start = now();
  const auto values = TRY(method.run(inputs.values));
  session.run_ms = milliseconds_since(start);
  session.run = Description(name, infos_of(inputs.values), infos_of(values));
  if (!copies_outputs) {
    return {};
  }
  const std::string title = session.program->title(name);
  TRY(check_size(values, title));
  for (size_t i = 0; i < values.size(); ++i) {
    session.arrays.push_back(TRY(to_array(values[i], title + ": output_" + std::to_string(i))));
  }
  for (const Array& array : session.arrays) {
    session.outputs.push_back(tensor_of(array, nullptr));
  }
  return {};
}

}  // namespace

Description::Description(
    std::string name,
    const std::vector<ValueInfo>& inputs,
    const std::vector<ValueInfo>& outputs)
    : name_(std::move(name)), input_count_(inputs.size()), infos_(inputs) {
  infos_.insert(infos_.end(), outputs.begin(), outputs.end());
  for (const ValueInfo& info : infos_) {
    values_.push_back(
        {info.kind, info.dtype.empty() ? nullptr : info.dtype.c_str(), info.shape.data(), info.shape.size()});
  }
}

executorch_app_method Description::get() const {
  const executorch_app_value* values = values_.data();
  return {name_.c_str(), values, input_count_, values + input_count_, values_.size() - input_count_};
}

Result<size_t> find_program(const executorch_app& app, const char* name, const char* function) {
  const auto& programs = app.files.chosen.programs;
  if (name == nullptr && programs.size() == 1) {
    return size_t{0};
  }
  std::string names;
  for (size_t i = 0; i < programs.size(); ++i) {
    if (name != nullptr && name_of(programs[i]) == name) {
      return i;
    }
    names += (names.empty() ? "" : ", ") + name_of(programs[i]);
  }
  return error(
      std::string(function) + ": program: got " +
      (name == nullptr ? std::string("NULL") : "\"" + std::string(name) + "\"") + ", expected one of: " + names +
      ".");
}

Result<std::unique_ptr<Program>> load_program(
    executorch_app_session& session,
    size_t index,
    const std::vector<std::string>& data) {
  executorch_app& app = *session.app;
  executorch::runtime::EventTracer* tracer = session.recorder == nullptr ? nullptr : session.recorder->tracer();
  if (data.empty()) {
    return Program::load(app.files.files[index], {app.files.weight_cache, tracer});
  }
  const Lock lock(app.is_switching);
  OtherData other = TRY(open_other_data(app.files, app.options, index, data, app.switched));
  if (other.weight_cache) {
    remember(other.files.cache_use, app.switched);
  }
  return Program::load(other.files, {other.weight_cache, tracer});
}

void set_program(
    executorch_app_session& session,
    size_t index,
    std::vector<std::string> data,
    std::unique_ptr<Program> program) {
  session.index = index;
  session.data = std::move(data);
  session.program = std::move(program);
  session.methods.assign(session.program->methods().begin(), session.program->methods().end());
  session.descriptions.clear();
}

}  // namespace runner

using runner::fail;
using runner::missing;
using runner::succeed;
using runner::text_or_empty;

extern "C" {

executorch_app_code executorch_app_open(
    const char* path,
    const executorch_app_open_options* options,
    executorch_app** app,
    executorch_app_error* error) {
  if (app == nullptr) {
    return missing("executorch_app_open", "app", error);
  }
  auto opened = std::make_unique<executorch_app>();
  opened->options = runner::open_options(path, options == nullptr ? executorch_app_open_options{} : *options);
  opened->files = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_FILES, runner::open_app(opened->options));
  *app = opened.release();
  return succeed(error);
}

void executorch_app_close(executorch_app* app) {
  delete app;
}

const char* executorch_app_label(const executorch_app* app) {
  const auto& manifest = app->files.chosen.app;
  return manifest ? manifest->label.c_str() : nullptr;
}

bool executorch_app_has_weight_cache(const executorch_app* app) {
  return app->files.weight_cache;
}

size_t executorch_app_program_count(const executorch_app* app) {
  return app->files.chosen.programs.size();
}

const char* executorch_app_program_name(const executorch_app* app, size_t index) {
  const auto& programs = app->files.chosen.programs;
  return index < programs.size() ? runner::name_of(programs[index]).c_str() : nullptr;
}

const char* executorch_app_program_path(const executorch_app* app, size_t index) {
  const auto& files = app->files.files;
  return index < files.size() ? files[index].program->path().c_str() : nullptr;
}

const char* executorch_app_data_path(const executorch_app* app, size_t program_index, size_t index) {
  const auto& files = app->files.files;
  return program_index < files.size() && index < files[program_index].data.size()
      ? files[program_index].data[index]->path().c_str()
      : nullptr;
}

executorch_app_code executorch_app_open_session(
    executorch_app* app,
    const char* program,
    executorch_app_session** session,
    executorch_app_error* error) {
  if (app == nullptr || session == nullptr) {
    return missing("executorch_app_open_session", app == nullptr ? "app" : "session", error);
  }
  const size_t index = TRY_OR_FAIL(
      EXECUTORCH_APP_INVALID_ARGUMENT, runner::find_program(*app, program, "executorch_app_open_session"));
  return executorch_app_open_session_at(app, index, nullptr, session, error);
}

executorch_app_code executorch_app_open_session_at(
    executorch_app* app,
    size_t index,
    const executorch_app_session_options* options,
    executorch_app_session** session,
    executorch_app_error* error) {
  if (app == nullptr || session == nullptr) {
    return missing("executorch_app_open_session_at", app == nullptr ? "app" : "session", error);
  }
  if (index >= app->files.files.size()) {
    return fail(
        EXECUTORCH_APP_INVALID_ARGUMENT,
        "executorch_app_open_session_at: index: got " + std::to_string(index) + ", expected less than " +
            std::to_string(app->files.files.size()) + ", the programs of the app.",
        error);
  }
  auto opened = std::make_unique<executorch_app_session>();
  opened->app = app;
  if (options != nullptr && options->records_events) {
    opened->recorder = TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, runner::make_recorder());
  }
  auto program = TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, runner::load_program(*opened, index, {}));
  runner::set_program(*opened, index, {}, std::move(program));
  *session = opened.release();
  return succeed(error);
}

void executorch_app_close_session(executorch_app_session* session) {
  delete session;
}

executorch_app_code executorch_app_reset_session(executorch_app_session* session, executorch_app_error* error) {
  if (session == nullptr) {
    return missing("executorch_app_reset_session", "session", error);
  }
  if (!session->chat.expired()) {
    return fail(
        EXECUTORCH_APP_INVALID_ARGUMENT,
        session->program->path() + ": the session has a chat, expected none. Rewind the chat, or close it.",
        error);
  }
  auto program =
      TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, runner::load_program(*session, session->index, session->data));
  runner::set_program(*session, session->index, session->data, std::move(program));
  return succeed(error);
}

executorch_app_code executorch_app_set_threads(size_t count, executorch_app_error* error) {
  if (count < 1 || count > runner::kMostThreads) {
    return fail(
        EXECUTORCH_APP_INVALID_ARGUMENT,
        "executorch_app_set_threads: count: got " + std::to_string(count) + ", expected a number from 1 to " +
            std::to_string(runner::kMostThreads) + ".",
        error);
  }
  TRY_OR_FAIL(EXECUTORCH_APP_FAILED, runner::set_threads(static_cast<int>(count)));
  return succeed(error);
}

size_t executorch_app_method_count(const executorch_app_session* session) {
  return session->methods.size();
}

const char* executorch_app_method_name(const executorch_app_session* session, size_t index) {
  return index < session->methods.size() ? session->methods[index].c_str() : nullptr;
}

executorch_app_code executorch_app_describe_method(
    executorch_app_session* session,
    const char* method,
    executorch_app_method* description,
    executorch_app_error* error) {
  if (session == nullptr || description == nullptr) {
    return missing("executorch_app_describe_method", session == nullptr ? "session" : "description", error);
  }
  const std::string name =
      TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, session->program->choose_method(text_or_empty(method)));
  if (session->descriptions.count(name) == 0) {
    const auto meta = TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, session->program->meta(name));
    session->descriptions[name] = runner::Description(name, runner::inputs_of(meta), runner::outputs_of(meta));
  }
  *description = session->descriptions[name].get();
  return succeed(error);
}

executorch_app_code executorch_app_load_method(
    executorch_app_session* session,
    const char* method,
    executorch_app_error* error) {
  if (session == nullptr) {
    return missing("executorch_app_load_method", "session", error);
  }
  const std::string name =
      TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, session->program->choose_method(text_or_empty(method)));
  TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, session->program->method(name));
  return succeed(error);
}

executorch_app_code executorch_app_run(
    executorch_app_session* session,
    const char* method,
    const executorch_app_tensor* inputs,
    size_t input_count,
    const executorch_app_tensor** outputs,
    size_t* output_count,
    executorch_app_error* error) {
  if (session == nullptr || (inputs == nullptr && input_count > 0)) {
    return missing("executorch_app_run", session == nullptr ? "session" : "inputs", error);
  }
  runner::Program& program = *session->program;
  const std::string name =
      TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, program.choose_method(text_or_empty(method)));
  const auto meta = TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, program.meta(name));
  const runner::Inputs values = TRY_OR_FAIL(
      EXECUTORCH_APP_INVALID_ARGUMENT, runner::copied_inputs(program.title(name), meta, inputs, input_count));
  runner::Method& loaded = *TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, program.method(name));
  TRY_OR_FAIL(EXECUTORCH_APP_FAILED, runner::run_method(*session, name, loaded, values, outputs != nullptr));
  if (outputs != nullptr) {
    *outputs = session->outputs.data();
  }
  if (output_count != nullptr) {
    *output_count = session->outputs.size();
  }
  return succeed(error);
}

double executorch_app_last_run(const executorch_app_session* session, executorch_app_method* description) {
  if (description != nullptr) {
    *description = session->run.get();
  }
  return session->run_ms;
}

executorch_app_code executorch_app_write_events(
    executorch_app_session* session,
    const char* path,
    executorch_app_error* error) {
  if (session == nullptr || path == nullptr) {
    return missing("executorch_app_write_events", session == nullptr ? "session" : "path", error);
  }
  if (session->recorder == nullptr) {
    return fail(
        EXECUTORCH_APP_INVALID_ARGUMENT,
        session->program->path() + ": the session records no events. Open it with records_events.",
        error);
  }
  TRY_OR_FAIL(EXECUTORCH_APP_INVALID_FILES, session->recorder->write(path));
  return succeed(error);
}

executorch_app_code executorch_app_open_tokenizer(
    const executorch_app* app,
    const char* path,
    bool parse_special,
    executorch_app_tokenizer** tokenizer,
    executorch_app_error* error) {
  if (app == nullptr || tokenizer == nullptr) {
    return missing("executorch_app_open_tokenizer", app == nullptr ? "app" : "tokenizer", error);
  }
  const std::string file = TRY_OR_FAIL(
      EXECUTORCH_APP_INVALID_FILES, runner::tokenizer_path(text_or_empty(path), app->files.chosen.app, "--text"));
  auto reader = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_FILES, runner::TextReader::read(file, parse_special));
  *tokenizer = new executorch_app_tokenizer{std::move(reader), {}, {}};
  return succeed(error);
}

void executorch_app_close_tokenizer(executorch_app_tokenizer* tokenizer) {
  delete tokenizer;
}

executorch_app_code executorch_app_text_inputs(
    executorch_app_tokenizer* tokenizer,
    executorch_app_session* session,
    const char* method,
    const char* const* texts,
    size_t text_count,
    const executorch_app_tensor** inputs,
    size_t* input_count,
    executorch_app_error* error) {
  if (tokenizer == nullptr || session == nullptr || texts == nullptr || inputs == nullptr || input_count == nullptr) {
    return missing(
        "executorch_app_text_inputs",
        tokenizer == nullptr     ? "tokenizer"
            : session == nullptr ? "session"
            : texts == nullptr   ? "texts"
            : inputs == nullptr  ? "inputs"
                                 : "input_count",
        error);
  }
  const runner::Program& program = *session->program;
  const std::string name =
      TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, program.choose_method(text_or_empty(method)));
  const auto meta = TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, program.meta(name));
  tokenizer->arrays = TRY_OR_FAIL(
      EXECUTORCH_APP_INVALID_ARGUMENT,
      tokenizer->reader.inputs(runner::texts_of(texts, text_count), program.title(name), meta));
  tokenizer->inputs.clear();
  for (const runner::Array& array : tokenizer->arrays) {
    tokenizer->inputs.push_back(runner::tensor_of(array, "--text"));
  }
  *inputs = tokenizer->inputs.data();
  *input_count = tokenizer->inputs.size();
  return succeed(error);
}

bool executorch_app_is_language_model(const executorch_app_session* session) {
  return runner::LanguageModel::is_language_model(*session->program);
}

}  // extern "C"

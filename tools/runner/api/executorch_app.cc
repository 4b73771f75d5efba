#include "tools/runner/api/executorch_app.h"

#include <mutex>

#include "tools/runner/api/handles.h"
#include "tools/runner/api/tensors.h"
#include "tools/runner/app/variants.h"
#include "tools/runner/base/os.h"
#include "tools/runner/llm/language_model.h"
#include "tools/runner/llm/text_files.h"
#include "tools/runner/tensors/declared.h"
#include "tools/runner/tensors/inputs.h"
#include "tools/runner/tensors/outputs.h"

namespace runner {
namespace {

// More than machines have cores; other processes need threads, too.
constexpr size_t kMaxThreads = 1024;

// As in an app's manifest.
constexpr size_t kMaxPrograms = 1000;

const std::string& name_of(const ChosenProgram& program) {
  return program.name.empty() ? program.files.program : program.name;
}

Result<OpenOptions::Program> program_of(const executorch_app_program_files& files, const std::string& what) {
  if (files.program == nullptr) {
    return error(what + "program: got NULL, expected a program's name, or a .pte file.");
  }
  OpenOptions::Program program = {files.program, files.bundled, text_or_empty(files.manifest), {}};
  program.data = TRY(texts_of(files.data, files.data_count, what + "data"));
  return program;
}

Result<OpenOptions> open_options(const char* path, const executorch_app_open_options& given, const char* function) {
  const std::string what = std::string(function) + ": ";
  OpenOptions options;
  if (path != nullptr && ends_with(path, ".pte")) {
    options.programs.push_back(TRY(program_of({path, given.manifest, given.data, given.data_count, false}, what)));
  } else {
    options.app = text_or_empty(path);
    options.data = TRY(texts_of(given.data, given.data_count, what + "data"));
  }
  if (given.program_count > kMaxPrograms || (given.programs == nullptr && given.program_count > 0)) {
    return error(
        what + "programs: got " + (given.programs == nullptr ? "NULL and a" : "a") + " count of " +
        std::to_string(given.program_count) + ", expected a list of at most " + std::to_string(kMaxPrograms) + ".");
  }
  for (size_t i = 0; i < given.program_count; ++i) {
    options.programs.push_back(TRY(program_of(given.programs[i], what + "programs[" + std::to_string(i) + "].")));
  }
  options.verify = given.verify;
  options.weight_cache = given.weight_cache;
  options.no_weight_cache = given.no_weight_cache;
  options.variants = TRY(texts_of(given.variants, given.variant_count, what + "variants"));
  options.device = TRY(texts_of(given.device, given.device_count, what + "device"));
  options.state = text_or_empty(given.state);
  return options;
}

Result<ArrayView> array_of(const executorch_app_tensor& tensor, const std::string& what) {
  const Dtype* dtype = dtype_of_name(text_or_empty(tensor.dtype));
  if (dtype == nullptr) {
    return error(
        what + ": dtype: got \"" + text_or_empty(tensor.dtype) + "\", expected one of: " + dtype_names() + ".");
  }
  if (tensor.rank > kMaxDimensions || (tensor.rank > 0 && tensor.shape == nullptr)) {
    return error(
        what + ": rank: got " + std::to_string(tensor.rank) + ", expected a shape of at most " +
        std::to_string(kMaxDimensions) + " dimensions.");
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

}  // namespace

Result<Inputs> copied_inputs(
    const std::string& title,
    const executorch::runtime::MethodMeta& meta,
    const std::vector<DeclaredInput>& declared,
    const executorch_app_tensor* tensors,
    size_t count) {
  // Before the array is read: a count may be no count.
  TRY(check_input_count(title, meta, count));
  std::vector<GivenInput> given;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = tensors[i].name == nullptr ? "input_" + std::to_string(i) : tensors[i].name;
    given.push_back({TRY(array_of(tensors[i], title + ": " + name)), name});
  }
  Inputs inputs = TRY(make_inputs(title, meta, given));
  TRY(check_declared(title, declared, given));
  return inputs;
}

namespace {

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
  const executorch_app& app = *session.app;
  executorch::runtime::EventTracer* tracer = session.recorder == nullptr ? nullptr : session.recorder->tracer();
  if (data.empty()) {
    return Program::load(app.files.files[index], tracer);
  }
  return Program::load(TRY(open_other_data(app.files, app.options, index, data)), tracer);
}

void set_program(
    executorch_app_session& session,
    size_t index,
    std::vector<std::string> data,
    std::unique_ptr<Program> program) {
  std::vector<std::string> methods(program->methods().begin(), program->methods().end());
  // From here on nothing fails.
  session.index = index;
  session.data = std::move(data);
  session.program = std::move(program);
  session.methods = std::move(methods);
  session.descriptions.clear();
}

}  // namespace runner

using runner::fail;
using runner::find_program;
using runner::give;
using runner::guarded;
using runner::look;
using runner::missing;
using runner::succeed;
using runner::text_or_empty;
using runner::use;

extern "C" {

const char* executorch_app_runtime_info(void) {
  static std::mutex mutex;
  static std::string info;
  const std::lock_guard<std::mutex> lock(mutex);
  return runner::caught(
      [&] {
        info = runner::runtime_info();
        return info.c_str();
      },
      [](const char*) { return "{}"; });
}

executorch_app_code executorch_app_open(
    const char* path,
    const executorch_app_open_options* options,
    executorch_app** app,
    executorch_app_error* error) {
  return guarded("executorch_app_open", error, [&](const char* function) {
    if (app == nullptr) {
      return missing(function, "app", error);
    }
    const executorch_app_open_options given = options == nullptr ? executorch_app_open_options{} : *options;
    auto opened = std::make_shared<executorch_app>();
    opened->options = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, runner::open_options(path, given, function));
    opened->files = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_FILES, runner::open_app(opened->options));
    for (const runner::ChosenVariant& variant : opened->files.chosen.variants) {
      opened->variants[variant.name] = runner::json_of(variant, opened->files.chosen.device);
    }
    return give(std::move(opened), nullptr, app, function, error);
  });
}

executorch_app_code executorch_app_close(executorch_app* app) {
  return runner::close_handle(runner::Kind::kApp, app);
}

const char* executorch_app_label(const executorch_app* app) {
  return look(app, static_cast<const char*>(nullptr), [](const executorch_app& opened) {
    const auto& manifest = opened.files.chosen.app;
    return manifest == nullptr ? nullptr : manifest->label.c_str();
  });
}

bool executorch_app_has_weight_cache(const executorch_app* app) {
  return look(app, false, [](const executorch_app& opened) { return opened.files.weight_cache; });
}

const char* executorch_app_variant(const executorch_app* app, const char* name) {
  return look(app, static_cast<const char*>(nullptr), [&](const executorch_app& opened) -> const char* {
    const auto& variants = opened.variants;
    if (name == nullptr) {
      return variants.size() == 1 ? variants.begin()->second.c_str() : nullptr;
    }
    const auto found = variants.find(name);
    return found == variants.end() ? nullptr : found->second.c_str();
  });
}

size_t executorch_app_program_count(const executorch_app* app) {
  return look(app, size_t{0}, [](const executorch_app& opened) { return opened.files.chosen.programs.size(); });
}

const char* executorch_app_program_name(const executorch_app* app, size_t index) {
  return look(app, static_cast<const char*>(nullptr), [&](const executorch_app& opened) {
    const auto& programs = opened.files.chosen.programs;
    return index < programs.size() ? runner::name_of(programs[index]).c_str() : nullptr;
  });
}

const char* executorch_app_program_path(const executorch_app* app, size_t index) {
  return look(app, static_cast<const char*>(nullptr), [&](const executorch_app& opened) {
    const auto& files = opened.files.files;
    return index < files.size() ? files[index].program->path().c_str() : nullptr;
  });
}

const char* executorch_app_data_path(const executorch_app* app, size_t program_index, size_t index) {
  return look(app, static_cast<const char*>(nullptr), [&](const executorch_app& opened) {
    const auto& files = opened.files.files;
    return program_index < files.size() && index < files[program_index].data.size()
        ? files[program_index].data[index]->path().c_str()
        : nullptr;
  });
}

executorch_app_code executorch_app_open_session(
    executorch_app* app,
    const char* program,
    executorch_app_session** session,
    executorch_app_error* error) {
  return guarded("executorch_app_open_session", error, [&](const char* function) {
    if (session == nullptr) {
      return missing(function, "session", error);
    }
    const auto opened = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(app, function, "app"));
    const size_t index = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, find_program(*opened, program, function));
    return executorch_app_open_session_at(app, index, nullptr, session, error);
  });
}

executorch_app_code executorch_app_open_session_at(
    executorch_app* app,
    size_t index,
    const executorch_app_session_options* options,
    executorch_app_session** session,
    executorch_app_error* error) {
  return guarded("executorch_app_open_session_at", error, [&](const char* function) {
    if (session == nullptr) {
      return missing(function, "session", error);
    }
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(app, function, "app"));
    const size_t count = used->files.files.size();
    if (index >= count) {
      return fail(
          EXECUTORCH_APP_INVALID_ARGUMENT,
          std::string(function) + ": index: got " + std::to_string(index) + ", expected less than " +
              std::to_string(count) + ", the programs of the app.",
          error);
    }
    auto opened = std::make_shared<executorch_app_session>();
    opened->app = used.shared();
    if (options != nullptr && options->records_events) {
      opened->recorder = TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, runner::make_recorder());
    }
    auto program = TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, runner::load_program(*opened, index, {}));
    runner::set_program(*opened, index, {}, std::move(program));
    return give(std::move(opened), app, session, function, error);
  });
}

executorch_app_code executorch_app_close_session(executorch_app_session* session) {
  return runner::close_handle(runner::Kind::kSession, session);
}

executorch_app_code executorch_app_reset_session(executorch_app_session* session, executorch_app_error* error) {
  return guarded("executorch_app_reset_session", error, [&](const char* function) {
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(session, function, "session"));
    if (!used->chat.expired()) {
      return fail(
          EXECUTORCH_APP_INVALID_ARGUMENT,
          used->program->path() + ": the session has a chat, expected none. Rewind the chat, or close it.",
          error);
    }
    auto program = TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, runner::load_program(*used, used->index, used->data));
    runner::set_program(*used, used->index, used->data, std::move(program));
    return succeed(error);
  });
}

executorch_app_code executorch_app_set_threads(size_t count, executorch_app_error* error) {
  return guarded("executorch_app_set_threads", error, [&](const char* function) {
    if (count < 1 || count > runner::kMaxThreads) {
      return fail(
          EXECUTORCH_APP_INVALID_ARGUMENT,
          std::string(function) + ": count: got " + std::to_string(count) + ", expected a number from 1 to " +
              std::to_string(runner::kMaxThreads) + ".",
          error);
    }
    if (runner::has_loaded_programs()) {
      return fail(
          EXECUTORCH_APP_INVALID_ARGUMENT,
          std::string(function) + ": a session of this process is open, expected none: loaded methods keep the threads. "
              "Set the threads before the first session, or close all sessions.",
          error);
    }
    TRY_OR_FAIL(EXECUTORCH_APP_FAILED, runner::set_threads(static_cast<int>(count)));
    return succeed(error);
  });
}

size_t executorch_app_method_count(const executorch_app_session* session) {
  return look(session, size_t{0}, [](const executorch_app_session& opened) { return opened.methods.size(); });
}

const char* executorch_app_method_name(const executorch_app_session* session, size_t index) {
  return look(session, static_cast<const char*>(nullptr), [&](const executorch_app_session& opened) {
    return index < opened.methods.size() ? opened.methods[index].c_str() : nullptr;
  });
}

executorch_app_code executorch_app_describe_method(
    executorch_app_session* session,
    const char* method,
    executorch_app_method* description,
    executorch_app_error* error) {
  return guarded("executorch_app_describe_method", error, [&](const char* function) {
    if (description == nullptr) {
      return missing(function, "description", error);
    }
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(session, function, "session"));
    const runner::Program& program = *used->program;
    const std::string name =
        TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, program.choose_method(text_or_empty(method)));
    auto known = used->descriptions.find(name);
    if (known == used->descriptions.end()) {
      const auto meta = TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, program.meta(name));
      runner::Description made(name, runner::inputs_of(meta), runner::outputs_of(meta));
      known = used->descriptions.emplace(name, std::move(made)).first;
    }
    *description = known->second.get();
    return succeed(error);
  });
}

executorch_app_code executorch_app_load_method(
    executorch_app_session* session,
    const char* method,
    executorch_app_error* error) {
  return guarded("executorch_app_load_method", error, [&](const char* function) {
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(session, function, "session"));
    const std::string name =
        TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, used->program->choose_method(text_or_empty(method)));
    TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, used->program->method(name));
    return succeed(error);
  });
}

executorch_app_code executorch_app_run(
    executorch_app_session* session,
    const char* method,
    const executorch_app_tensor* inputs,
    size_t input_count,
    const executorch_app_tensor** outputs,
    size_t* output_count,
    executorch_app_error* error) {
  return guarded("executorch_app_run", error, [&](const char* function) {
    if (inputs == nullptr && input_count > 0) {
      return missing(function, "inputs", error);
    }
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(session, function, "session"));
    runner::Program& program = *used->program;
    const std::string name =
        TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, program.choose_method(text_or_empty(method)));
    const auto meta = TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, program.meta(name));
    const runner::Inputs values = TRY_OR_FAIL(
        EXECUTORCH_APP_INVALID_ARGUMENT, runner::copied_inputs(program.title(name), meta, program.declared(name), inputs, input_count));
    runner::Method& loaded = *TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, program.method(name));
    TRY_OR_FAIL(EXECUTORCH_APP_FAILED, runner::run_method(*used, name, loaded, values, outputs != nullptr));
    if (outputs != nullptr) {
      *outputs = used->outputs.data();
    }
    if (output_count != nullptr) {
      *output_count = used->outputs.size();
    }
    return succeed(error);
  });
}

double executorch_app_last_run(const executorch_app_session* session, executorch_app_method* description) {
  if (description != nullptr) {
    *description = {"", nullptr, 0, nullptr, 0};
  }
  return look(session, 0.0, [&](const executorch_app_session& opened) {
    if (description != nullptr) {
      *description = opened.run.get();
    }
    return opened.run_ms;
  });
}

executorch_app_code executorch_app_write_events(
    executorch_app_session* session,
    const char* path,
    executorch_app_error* error) {
  return guarded("executorch_app_write_events", error, [&](const char* function) {
    if (path == nullptr) {
      return missing(function, "path", error);
    }
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(session, function, "session"));
    if (used->recorder == nullptr) {
      return fail(
          EXECUTORCH_APP_INVALID_ARGUMENT,
          used->program->path() + ": the session records no events. Open it with records_events.",
          error);
    }
    TRY_OR_FAIL(EXECUTORCH_APP_INVALID_FILES, used->recorder->write(path));
    return succeed(error);
  });
}

executorch_app_code executorch_app_open_tokenizer(
    const executorch_app* app,
    const char* path,
    bool parse_special,
    executorch_app_tokenizer** tokenizer,
    executorch_app_error* error) {
  return guarded("executorch_app_open_tokenizer", error, [&](const char* function) {
    if (tokenizer == nullptr) {
      return missing(function, "tokenizer", error);
    }
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(app, function, "app"));
    const std::string file = TRY_OR_FAIL(
        EXECUTORCH_APP_INVALID_FILES, runner::tokenizer_path(text_or_empty(path), used->files.chosen.app, "--text"));
    auto opened = std::make_shared<executorch_app_tokenizer>();
    opened->reader = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_FILES, runner::TextReader::read(file, parse_special));
    return give(std::move(opened), nullptr, tokenizer, function, error);
  });
}

executorch_app_code executorch_app_close_tokenizer(executorch_app_tokenizer* tokenizer) {
  return runner::close_handle(runner::Kind::kTokenizer, tokenizer);
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
  return guarded("executorch_app_text_inputs", error, [&](const char* function) {
    if (inputs == nullptr || input_count == nullptr) {
      return missing(function, inputs == nullptr ? "inputs" : "input_count", error);
    }
    const auto reader = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(tokenizer, function, "tokenizer"));
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(session, function, "session"));
    const std::vector<std::string> all = TRY_OR_FAIL(
        EXECUTORCH_APP_INVALID_ARGUMENT, runner::texts_of(texts, text_count, std::string(function) + ": texts"));
    const runner::Program& program = *used->program;
    const std::string name =
        TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, program.choose_method(text_or_empty(method)));
    const auto meta = TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, program.meta(name));
    auto arrays = TRY_OR_FAIL(
        EXECUTORCH_APP_INVALID_ARGUMENT, reader->reader.inputs(all, program.title(name), meta));
    std::vector<executorch_app_tensor> tensors;
    for (const runner::Array& array : arrays) {
      tensors.push_back(runner::tensor_of(array, "--text"));
    }
    // The arrays keep their addresses.
    reader->arrays = std::move(arrays);
    reader->inputs = std::move(tensors);
    *inputs = reader->inputs.data();
    *input_count = reader->inputs.size();
    return succeed(error);
  });
}

bool executorch_app_is_language_model(const executorch_app_session* session) {
  return look(session, false, [](const executorch_app_session& opened) {
    return runner::LanguageModel::is_language_model(*opened.program);
  });
}

}  // extern "C"

#include "tools/runner/api/executorch_app.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/runner/api/sentence.h"
#include "tools/runner/app/open_app.h"
#include "tools/runner/base/lock.h"
#include "tools/runner/engine/program.h"
#include "tools/runner/llm/prompter.h"
#include "tools/runner/tensors/inputs.h"
#include "tools/runner/tensors/outputs.h"

using runner::Array;
using runner::Result;
using runner::Status;

struct executorch_app {
  runner::Arguments arguments;
  runner::App files;
  // Data files that chats were switched to, beside the app's own. Any thread switches.
  std::atomic_flag is_switching = ATOMIC_FLAG_INIT;
  std::vector<runner::CacheUse> switched;
};

struct executorch_app_session {
  executorch_app* app;
  size_t index;  // Of the program in the app.
  std::unique_ptr<runner::Program> program;
  std::vector<std::string> methods;
  // Ends with the session's chat.
  std::weak_ptr<void> chat;
  // Of the last run.
  std::vector<Array> arrays;
  std::vector<executorch_app_tensor> outputs;
};

struct executorch_app_chat {
  executorch_app_session* session;
  std::shared_ptr<void> life = std::make_shared<char>();
  runner::ChatText text;
  std::unique_ptr<runner::Chat> chat;
};

namespace {

executorch_app_code fail(
    executorch_app_code code,
    const std::string& sentence,
    executorch_app_error* error) {
  runner::write_sentence(sentence, error);
  return code;
}

executorch_app_code succeed(executorch_app_error* error) {
  return fail(EXECUTORCH_APP_OK, "", error);
}

executorch_app_code missing(const char* function, const char* argument, executorch_app_error* error) {
  return fail(
      EXECUTORCH_APP_INVALID_ARGUMENT,
      std::string(function) + ": " + argument + ": got NULL, expected a value.",
      error);
}

std::string text_or_empty(const char* text) {
  return text == nullptr ? "" : text;
}

const std::string& name_of(const runner::ChosenProgram& program) {
  return program.name.empty() ? program.files.program : program.name;
}

// The index of a program; an error, if there is none of that name.
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
  return runner::error(
      std::string(function) + ": program: got " +
      (name == nullptr ? std::string("NULL") : "\"" + std::string(name) + "\"") + ", expected one of: " + names +
      ".");
}

// Adds a use, unless it packs what another one packs.
void remember(const runner::CacheUse& use, std::vector<runner::CacheUse>& uses) {
  const bool is_known = std::any_of(uses.begin(), uses.end(), [&use](const runner::CacheUse& known) {
    return use.manifest && use.manifest->packed && known.manifest && known.manifest->packed == use.manifest->packed;
  });
  if (!is_known) {
    uses.push_back(use);
  }
}

// Loads a program, with other data files if there are any.
Result<std::unique_ptr<runner::Program>> load_with(
    executorch_app& app,
    size_t index,
    const std::vector<std::string>& data) {
  if (data.empty()) {
    return runner::Program::load(app.files.files[index], {app.files.weight_cache, nullptr});
  }
  const runner::Lock lock(app.is_switching);
  runner::OtherData other = TRY(runner::open_other_data(app.files, app.arguments, index, data, app.switched));
  if (other.weight_cache) {
    remember(other.files.cache_use, app.switched);
  }
  return runner::Program::load(other.files, {other.weight_cache, nullptr});
}

void set_program(executorch_app_session& session, size_t index, std::unique_ptr<runner::Program> program) {
  session.index = index;
  session.program = std::move(program);
  session.methods.assign(session.program->methods().begin(), session.program->methods().end());
}

Result<Array> array_of(const executorch_app_tensor& tensor, const std::string& what) {
  const runner::Dtype* dtype = runner::dtype_of_name(text_or_empty(tensor.dtype));
  if (dtype == nullptr) {
    return runner::error(
        what + ": dtype: got \"" + text_or_empty(tensor.dtype) + "\", expected one of: " + runner::dtype_names() +
        ".");
  }
  if (tensor.rank > runner::kMostDimensions || (tensor.rank > 0 && tensor.shape == nullptr)) {
    return runner::error(
        what + ": rank: got " + std::to_string(tensor.rank) + ", expected a shape of at most " +
        std::to_string(runner::kMostDimensions) + " dimensions.");
  }
  std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.rank);
  const int64_t size = runner::bytes_of(*dtype, shape);
  if (size < 0 || tensor.size != static_cast<uint64_t>(size) || (size > 0 && tensor.data == nullptr)) {
    return runner::error(
        what + ": size: got " + std::to_string(tensor.size) + " bytes, expected those of " + dtype->name + " " +
        runner::shape_text(shape) + ".");
  }
  const auto* bytes = static_cast<const uint8_t*>(tensor.data);
  return Array{dtype, std::move(shape), std::vector<uint8_t>(bytes, bytes + tensor.size)};
}

Result<runner::Inputs> inputs_of(
    const std::string& title,
    const executorch::runtime::MethodMeta& meta,
    const executorch_app_tensor* tensors,
    size_t count) {
  std::vector<runner::GivenInput> given;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = "input_" + std::to_string(i);
    given.push_back({TRY(array_of(tensors[i], title + ": " + name)), name});
  }
  return runner::make_inputs(title, meta, given);
}

Status run_method(
    executorch_app_session& session,
    runner::Method& method,
    const std::string& title,
    const runner::Inputs& inputs) {
  const auto values = TRY(method.run(inputs.values));
  session.outputs.clear();
  session.arrays.clear();
  for (size_t i = 0; i < values.size(); ++i) {
    session.arrays.push_back(TRY(runner::to_array(values[i], title + ": output_" + std::to_string(i))));
  }
  for (const Array& array : session.arrays) {
    session.outputs.push_back(
        {array.dtype->name, array.shape.data(), array.shape.size(), array.data.data(), array.data.size()});
  }
  return {};
}

const char* constant_reason(const std::string& reason) {
  for (const char* constant : {"end", "length", "context"}) {
    if (reason == constant) {
      return constant;
    }
  }
  return "stopped";
}

// Checks the options that have the command line's limits.
Status read_chat_options(const executorch_app_chat_options& options, runner::Arguments& arguments) {
  const uint32_t most = INT32_MAX;
  if (options.seed > most || options.max_new_tokens > most) {
    return runner::error(
        "executorch_app_open_chat: seed or max_new_tokens: got " +
        std::to_string(options.seed > most ? options.seed : options.max_new_tokens) + ", expected at most " +
        std::to_string(most) + ".");
  }
  if (!(options.temperature >= 0 && options.temperature <= 1e6)) {
    return runner::error(
        "executorch_app_open_chat: temperature: got " + std::to_string(options.temperature) +
        ", expected a number from 0 to 1000000.");
  }
  arguments.tokenizer = text_or_empty(options.tokenizer);
  arguments.system = text_or_empty(options.system);
  arguments.raw_prompt = options.raw;
  arguments.temperature = options.temperature;
  arguments.seed = static_cast<int>(options.seed);
  if (options.max_new_tokens > 0) {
    arguments.max_new_tokens = static_cast<int>(options.max_new_tokens);
  }
  return {};
}

}  // namespace

extern "C" {

executorch_app_code executorch_app_open(
    const char* path,
    const executorch_app_open_options* options,
    executorch_app** app,
    executorch_app_error* error) {
  if (path == nullptr || app == nullptr) {
    return missing("executorch_app_open", path == nullptr ? "path" : "app", error);
  }
  const executorch_app_open_options& chosen = options == nullptr ? executorch_app_open_options{} : *options;
  auto opened = std::make_unique<executorch_app>();
  runner::Arguments& arguments = opened->arguments;
  const std::string given = path;
  if (runner::ends_with(given, ".pte")) {
    runner::Arguments::Program program;
    program.given = given;
    program.manifest = text_or_empty(chosen.manifest);
    program.data.assign(chosen.data, chosen.data + chosen.data_count);
    arguments.programs.push_back(std::move(program));
  } else {
    arguments.app = given;
  }
  arguments.verify = chosen.verify;
  arguments.weight_cache = chosen.weight_cache;
  arguments.no_weight_cache = chosen.no_weight_cache;
  auto files = runner::open_app(arguments);
  if (!files.ok()) {
    return fail(EXECUTORCH_APP_INVALID_FILES, files.sentence(), error);
  }
  opened->files = files.take_value();
  *app = opened.release();
  return succeed(error);
}

void executorch_app_close(executorch_app* app) {
  delete app;
}

size_t executorch_app_program_count(const executorch_app* app) {
  return app->files.chosen.programs.size();
}

const char* executorch_app_program_name(const executorch_app* app, size_t index) {
  const auto& programs = app->files.chosen.programs;
  return index < programs.size() ? name_of(programs[index]).c_str() : nullptr;
}

executorch_app_code executorch_app_open_session(
    executorch_app* app,
    const char* program,
    executorch_app_session** session,
    executorch_app_error* error) {
  if (app == nullptr || session == nullptr) {
    return missing("executorch_app_open_session", app == nullptr ? "app" : "session", error);
  }
  const Result<size_t> index = find_program(*app, program, "executorch_app_open_session");
  if (!index.ok()) {
    return fail(EXECUTORCH_APP_INVALID_ARGUMENT, index.sentence(), error);
  }
  auto loaded = runner::Program::load(app->files.files[*index], {app->files.weight_cache, nullptr});
  if (!loaded.ok()) {
    return fail(EXECUTORCH_APP_NOT_LOADED, loaded.sentence(), error);
  }
  auto opened = std::make_unique<executorch_app_session>();
  opened->app = app;
  set_program(*opened, *index, loaded.take_value());
  *session = opened.release();
  return succeed(error);
}

void executorch_app_close_session(executorch_app_session* session) {
  delete session;
}

size_t executorch_app_method_count(const executorch_app_session* session) {
  return session->methods.size();
}

const char* executorch_app_method_name(const executorch_app_session* session, size_t index) {
  return index < session->methods.size() ? session->methods[index].c_str() : nullptr;
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
  const auto name = program.choose_method(text_or_empty(method));
  if (!name.ok()) {
    return fail(EXECUTORCH_APP_INVALID_ARGUMENT, name.sentence(), error);
  }
  const std::string title = program.title(*name);
  const auto meta = program.meta(*name);
  if (!meta.ok()) {
    return fail(EXECUTORCH_APP_NOT_LOADED, meta.sentence(), error);
  }
  const auto made = inputs_of(title, *meta, inputs, input_count);
  if (!made.ok()) {
    return fail(EXECUTORCH_APP_INVALID_ARGUMENT, made.sentence(), error);
  }
  const auto loaded = program.method(*name);
  if (!loaded.ok()) {
    return fail(EXECUTORCH_APP_NOT_LOADED, loaded.sentence(), error);
  }
  const Status done = run_method(*session, **loaded, title, *made);
  if (!done.ok()) {
    return fail(EXECUTORCH_APP_FAILED, done.sentence(), error);
  }
  if (outputs != nullptr) {
    *outputs = session->outputs.data();
  }
  if (output_count != nullptr) {
    *output_count = session->outputs.size();
  }
  return succeed(error);
}

executorch_app_code executorch_app_open_chat(
    executorch_app_session* session,
    const executorch_app_chat_options* options,
    executorch_app_chat** chat,
    executorch_app_error* error) {
  if (session == nullptr || chat == nullptr) {
    return missing("executorch_app_open_chat", session == nullptr ? "session" : "chat", error);
  }
  if (!session->chat.expired()) {
    return fail(
        EXECUTORCH_APP_INVALID_ARGUMENT,
        session->program->path() + ": the session has a chat, expected one at a time. Close it, or open another session.",
        error);
  }
  runner::Arguments arguments;
  const Status valid = read_chat_options(options == nullptr ? executorch_app_chat_options{} : *options, arguments);
  if (!valid.ok()) {
    return fail(EXECUTORCH_APP_INVALID_ARGUMENT, valid.sentence(), error);
  }
  auto text = runner::read_chat_text(arguments, session->app->files.chosen.app);
  if (!text.ok()) {
    return fail(EXECUTORCH_APP_INVALID_FILES, text.sentence(), error);
  }
  auto opened = std::make_unique<executorch_app_chat>();
  opened->session = session;
  opened->text = text.take_value();
  auto model = runner::Chat::open(*session->program, opened->text, runner::chat_options(arguments));
  if (!model.ok()) {
    return fail(EXECUTORCH_APP_NOT_LOADED, model.sentence(), error);
  }
  opened->chat = model.take_value();
  session->chat = opened->life;
  *chat = opened.release();
  return succeed(error);
}

void executorch_app_close_chat(executorch_app_chat* chat) {
  delete chat;
}

executorch_app_code executorch_app_say(
    executorch_app_chat* chat,
    const char* message,
    executorch_app_listener listener,
    void* user,
    executorch_app_answer* answer,
    executorch_app_error* error) {
  if (chat == nullptr || message == nullptr) {
    return missing("executorch_app_say", chat == nullptr ? "chat" : "message", error);
  }
  const auto tokens = chat->chat->tokens_of(message);
  if (!tokens.ok()) {
    return fail(EXECUTORCH_APP_INVALID_ARGUMENT, tokens.sentence(), error);
  }
  if (tokens->size() > chat->chat->room()) {
    return fail(
        EXECUTORCH_APP_CONTEXT_FULL,
        chat->session->program->path() + ": the message does not fit into the context: got " + std::to_string(tokens->size()) +
            " tokens, expected at most " + std::to_string(chat->chat->room()) +
            ". Rewind the chat, or shorten the message.",
        error);
  }
  const auto done = chat->chat->say(*tokens, [&](const std::string& text) {
    if (listener != nullptr && !listener(text.c_str(), user)) {
      chat->chat->stop();
    }
    return Status();
  });
  if (!done.ok()) {
    return fail(EXECUTORCH_APP_FAILED, done.sentence(), error);
  }
  if (answer != nullptr) {
    *answer = {
        constant_reason(done->reason),
        done->prompt_tokens.size(),
        done->tokens.size(),
        done->prefill_ms,
        done->decode_tokens,
        done->decode_ms};
  }
  return succeed(error);
}

void executorch_app_stop(executorch_app_chat* chat) {
  chat->chat->stop();
}

size_t executorch_app_turns(const executorch_app_chat* chat) {
  return chat->chat->turns();
}

executorch_app_code executorch_app_rewind(
    executorch_app_chat* chat,
    size_t turns,
    executorch_app_error* error) {
  if (turns > chat->chat->turns()) {
    return fail(
        EXECUTORCH_APP_INVALID_ARGUMENT,
        "executorch_app_rewind: turns: got " + std::to_string(turns) + ", expected at most " +
            std::to_string(chat->chat->turns()) + ", the turns of the chat.",
        error);
  }
  chat->chat->rewind(turns);
  return succeed(error);
}

executorch_app_code executorch_app_switch_adapter(
    executorch_app_chat* chat,
    const char* program,
    const char* const* data,
    size_t data_count,
    executorch_app_error* error) {
  if (chat == nullptr || (data == nullptr && data_count > 0)) {
    return missing("executorch_app_switch_adapter", chat == nullptr ? "chat" : "data", error);
  }
  executorch_app_session& session = *chat->session;
  executorch_app& app = *session.app;
  const Result<size_t> index = program == nullptr
      ? Result<size_t>(session.index)
      : find_program(app, program, "executorch_app_switch_adapter");
  if (!index.ok()) {
    return fail(EXECUTORCH_APP_INVALID_ARGUMENT, index.sentence(), error);
  }
  auto loaded = load_with(app, *index, std::vector<std::string>(data, data + data_count));
  if (!loaded.ok()) {
    return fail(data_count > 0 ? EXECUTORCH_APP_INVALID_FILES : EXECUTORCH_APP_NOT_LOADED, loaded.sentence(), error);
  }
  auto opened = loaded.take_value();
  const Status done = chat->chat->switch_program(*opened);
  if (!done.ok()) {
    return fail(EXECUTORCH_APP_NOT_LOADED, done.sentence(), error);
  }
  set_program(session, *index, std::move(opened));
  return succeed(error);
}

executorch_app_code executorch_app_save_chat(
    const executorch_app_chat* chat,
    const char* path,
    executorch_app_error* error) {
  if (chat == nullptr || path == nullptr) {
    return missing("executorch_app_save_chat", chat == nullptr ? "chat" : "path", error);
  }
  const Status done = chat->chat->save(path);
  return done.ok() ? succeed(error) : fail(EXECUTORCH_APP_INVALID_FILES, done.sentence(), error);
}

executorch_app_code executorch_app_restore_chat(
    executorch_app_chat* chat,
    const char* path,
    executorch_app_error* error) {
  if (chat == nullptr || path == nullptr) {
    return missing("executorch_app_restore_chat", chat == nullptr ? "chat" : "path", error);
  }
  const Status done = chat->chat->restore(path);
  return done.ok() ? succeed(error) : fail(EXECUTORCH_APP_INVALID_FILES, done.sentence(), error);
}

executorch_app_code executorch_app_count_tokens(
    const executorch_app_chat* chat,
    const char* message,
    size_t* count,
    executorch_app_error* error) {
  if (message == nullptr || count == nullptr) {
    return missing("executorch_app_count_tokens", message == nullptr ? "message" : "count", error);
  }
  const auto tokens = chat->chat->tokens_of(message);
  if (!tokens.ok()) {
    return fail(EXECUTORCH_APP_INVALID_ARGUMENT, tokens.sentence(), error);
  }
  *count = tokens->size();
  return succeed(error);
}

size_t executorch_app_room(const executorch_app_chat* chat) {
  return static_cast<size_t>(chat->chat->room());
}

}  // extern "C"

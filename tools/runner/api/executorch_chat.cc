#include <utility>

#include "tools/runner/api/executorch_app.h"
#include "tools/runner/api/handles.h"
#include "tools/runner/base/os.h"
#include "tools/runner/base/text.h"
#include "tools/runner/llm/text_files.h"

namespace runner {
namespace {

// As on the command line.
constexpr double kMostTemperature = 1e300;

// Of the answers; an error, if a number is out of its range.
Result<ChatOptions> generation_options(const executorch_app_chat_options& given) {
  const uint32_t most = INT32_MAX;
  if (given.seed > most || given.max_new_tokens > most) {
    return error(
        "executorch_app_open_chat: seed or max_new_tokens: got " +
        std::to_string(given.seed > most ? given.seed : given.max_new_tokens) + ", expected at most " +
        std::to_string(most) + ".");
  }
  if (!(given.temperature >= 0 && given.temperature <= kMostTemperature)) {
    return error(
        "executorch_app_open_chat: temperature: got " + short_text(given.temperature) +
        ", expected a number that is not negative.");
  }
  ChatOptions options;
  options.temperature = given.temperature;
  options.seed = given.seed > 0 ? given.seed : static_cast<uint64_t>(now().time_since_epoch().count());
  options.max_new_tokens = given.max_new_tokens > 0 ? given.max_new_tokens : options.max_new_tokens;
  return options;
}

TextOptions text_options(const executorch_app_chat_options& given) {
  return {text_or_empty(given.tokenizer), text_or_empty(given.system), given.raw, given.parse_special, given.multi_turn};
}

}  // namespace
}  // namespace runner

using runner::fail;
using runner::missing;
using runner::succeed;

extern "C" {

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
  const executorch_app_chat_options given = options == nullptr ? executorch_app_chat_options{} : *options;
  const auto generation = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, runner::generation_options(given));
  auto opened = std::make_unique<executorch_app_chat>();
  opened->session = session;
  opened->text = TRY_OR_FAIL(
      EXECUTORCH_APP_INVALID_FILES,
      runner::read_chat_text(runner::text_options(given), session->app->files.chosen.app));
  opened->chat = TRY_OR_FAIL(
      EXECUTORCH_APP_NOT_LOADED, runner::Chat::open(*session->program, opened->text, generation));
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
  const std::vector<uint32_t> tokens =
      TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, chat->chat->tokens_of(message));
  if (tokens.size() > chat->chat->room()) {
    return fail(
        EXECUTORCH_APP_CONTEXT_FULL,
        chat->session->program->path() + ": the message does not fit into the context: got " + std::to_string(tokens.size()) +
            " tokens, expected at most " + std::to_string(chat->chat->room()) +
            ". Rewind the chat, or shorten the message.",
        error);
  }
  const auto hear = [&](const std::string& text) {
    if (listener != nullptr && !listener(text.c_str(), text.size(), user)) {
      chat->chat->stop();
    }
    return runner::Status();
  };
  chat->answer = TRY_OR_FAIL(EXECUTORCH_APP_FAILED, chat->chat->say(tokens, hear));
  if (answer != nullptr) {
    const runner::Answer& said = chat->answer;
    *answer = {
        said.reason,
        said.prompt_tokens.size(),
        said.tokens.size(),
        said.prefill_ms,
        said.decode_tokens,
        said.decode_ms,
        said.prompt_tokens.data(),
        said.tokens.data()};
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
  size_t index = session.index;
  if (program != nullptr) {
    index = TRY_OR_FAIL(
        EXECUTORCH_APP_INVALID_ARGUMENT,
        runner::find_program(*session.app, program, "executorch_app_switch_adapter"));
  }
  std::vector<std::string> files(data, data + data_count);
  auto loaded = TRY_OR_FAIL(
      data_count > 0 ? EXECUTORCH_APP_INVALID_FILES : EXECUTORCH_APP_NOT_LOADED,
      runner::load_program(session, index, files));
  TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, chat->chat->switch_program(*loaded));
  runner::set_program(session, index, std::move(files), std::move(loaded));
  return succeed(error);
}

executorch_app_code executorch_app_save_chat(
    const executorch_app_chat* chat,
    const char* path,
    executorch_app_error* error) {
  if (chat == nullptr || path == nullptr) {
    return missing("executorch_app_save_chat", chat == nullptr ? "chat" : "path", error);
  }
  TRY_OR_FAIL(EXECUTORCH_APP_INVALID_FILES, chat->chat->save(path));
  return succeed(error);
}

executorch_app_code executorch_app_restore_chat(
    executorch_app_chat* chat,
    const char* path,
    executorch_app_error* error) {
  if (chat == nullptr || path == nullptr) {
    return missing("executorch_app_restore_chat", chat == nullptr ? "chat" : "path", error);
  }
  TRY_OR_FAIL(EXECUTORCH_APP_INVALID_FILES, chat->chat->restore(path));
  return succeed(error);
}

executorch_app_code executorch_app_count_tokens(
    const executorch_app_chat* chat,
    const char* message,
    size_t* count,
    executorch_app_error* error) {
  if (message == nullptr || count == nullptr) {
    return missing("executorch_app_count_tokens", message == nullptr ? "message" : "count", error);
  }
  *count = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, chat->chat->tokens_of(message)).size();
  return succeed(error);
}

size_t executorch_app_position(const executorch_app_chat* chat) {
  return static_cast<size_t>(chat->chat->position());
}

size_t executorch_app_context(const executorch_app_chat* chat) {
  return static_cast<size_t>(chat->chat->context());
}

size_t executorch_app_room(const executorch_app_chat* chat) {
  return static_cast<size_t>(chat->chat->room());
}

}  // extern "C"

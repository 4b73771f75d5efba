#include <utility>

#include "tools/runner/api/executorch_app.h"
#include "tools/runner/api/handles.h"
#include "tools/runner/base/os.h"
#include "tools/runner/base/text.h"
#include "tools/runner/llm/text_files.h"

namespace runner {
namespace {

// As on the command line.
constexpr double kMaxTemperature = 1e300;

// More than any context holds.
constexpr size_t kMostTokens = 1 << 24;

// Of the answers; an error, if a number is out of its range.
Result<ChatOptions> generation_options(const executorch_app_chat_options& given) {
  const uint32_t most = INT32_MAX;
  if (given.seed > most || given.max_new_tokens > most) {
    return error(
        "executorch_app_open_chat: seed or max_new_tokens: got " +
        std::to_string(given.seed > most ? given.seed : given.max_new_tokens) + ", expected at most " +
        std::to_string(most) + ".");
  }
  if (!(given.temperature >= 0 && given.temperature <= kMaxTemperature)) {
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

executorch_app_answer answer_of(const Generation& last) {
  return {
      last.reason,
      last.prompt_tokens.size(),
      last.tokens.size(),
      last.prefill_ms,
      last.decode_tokens,
      last.decode_ms,
      last.prompt_tokens.data(),
      last.tokens.data()};
}

// From an empty context, as a fresh chat.
Result<Generation> generate_from_start(
    Program& program,
    const std::vector<uint32_t>& tokens,
    size_t max_new_tokens) {
  LanguageModel model = TRY(LanguageModel::open(program));
  Session session(model);
  if (tokens.size() > session.room()) {
    return error(
        program.path() + ": the tokens do not fit into the context: got " + std::to_string(tokens.size()) +
        ", expected at most " + std::to_string(session.room()) + ".");
  }
  Sampler sampler(0, 0);
  return generate(session, sampler, tokens, {max_new_tokens, true}, [](uint32_t) { return Status(); });
}

TextOptions text_options(const executorch_app_chat_options& given) {
  return {text_or_empty(given.tokenizer), text_or_empty(given.system), given.raw, given.parse_special, given.multi_turn};
}

}  // namespace
}  // namespace runner

using runner::fail;
using runner::give;
using runner::guarded;
using runner::look;
using runner::missing;
using runner::succeed;
using runner::use;

extern "C" {

executorch_app_code executorch_app_open_chat(
    executorch_app_session* session,
    const executorch_app_chat_options* options,
    executorch_app_chat** chat,
    executorch_app_error* error) {
  return guarded("executorch_app_open_chat", error, [&](const char* function) {
    if (chat == nullptr) {
      return missing(function, "chat", error);
    }
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(session, function, "session"));
    if (!used->chat.expired()) {
      return fail(
          EXECUTORCH_APP_INVALID_ARGUMENT,
          used->program->path() +
              ": the session has a chat, expected one at a time. Close it, or open another session.",
          error);
    }
    const executorch_app_chat_options given = options == nullptr ? executorch_app_chat_options{} : *options;
    const auto generation = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, runner::generation_options(given));
    auto opened = std::make_shared<executorch_app_chat>();
    opened->session = used.shared();
    opened->text = TRY_OR_FAIL(
        EXECUTORCH_APP_INVALID_FILES,
        runner::read_chat_text(runner::text_options(given), used->app->files.chosen.app));
    opened->chat = TRY_OR_FAIL(
        EXECUTORCH_APP_NOT_LOADED, runner::Chat::open(*used->program, opened->text, generation));
    used->chat = opened;
    return give(std::move(opened), session, chat, function, error);
  });
}

executorch_app_code executorch_app_close_chat(executorch_app_chat* chat) {
  return runner::close_handle(runner::Kind::kChat, chat);
}

executorch_app_code executorch_app_attach(
    executorch_app_chat* chat,
    const executorch_app_tensor* media,
    executorch_app_error* error) {
  return guarded("executorch_app_attach", error, [&](const char* function) {
    if (media == nullptr) {
      return missing(function, "media", error);
    }
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(chat, function, "chat"));
    runner::Chat& conversation = *used->chat;
    runner::Program& program = *used->session->program;
    const std::string method = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, conversation.encoder());
    const auto meta = TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, program.meta(method));
    const runner::Inputs inputs = TRY_OR_FAIL(
        EXECUTORCH_APP_INVALID_ARGUMENT,
        runner::copied_inputs(program.title(method), meta, program.declared(method), media, 1));
    TRY_OR_FAIL(EXECUTORCH_APP_NOT_LOADED, program.method(method));
    TRY_OR_FAIL(EXECUTORCH_APP_FAILED, conversation.attach(inputs));
    return succeed(error);
  });
}

executorch_app_code executorch_app_say(
    executorch_app_chat* chat,
    const char* message,
    executorch_app_listener listener,
    void* user,
    executorch_app_answer* answer,
    executorch_app_error* error) {
  return guarded("executorch_app_say", error, [&](const char* function) {
    if (message == nullptr) {
      return missing(function, "message", error);
    }
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(chat, function, "chat"));
    runner::Chat& conversation = *used->chat;
    const std::vector<uint32_t> tokens =
        TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, conversation.tokens_of(message));
    if (tokens.size() > conversation.room()) {
      return fail(
          EXECUTORCH_APP_CONTEXT_FULL,
          used->session->program->path() + ": the message does not fit into the context: got " +
              std::to_string(tokens.size()) + " tokens, expected at most " + std::to_string(conversation.room()) +
              ". Rewind the chat, or shorten the message.",
          error);
    }
    const auto hear = [&](const std::string& text) {
      return runner::caught(
          [&]() -> runner::Status {
            if (listener != nullptr && !listener(text.c_str(), text.size(), user)) {
              conversation.stop();
            }
            return {};
          },
          // As an error, so that the chat goes back to where it was.
          [&](const char* what) {
            return runner::error(std::string(function) + ": the listener threw an exception: " + what + ".");
          });
    };
    used->session->use.begin_change();
    auto said = conversation.say(tokens, hear);
    used->session->use.end_change();
    used->answer = TRY_OR_FAIL(EXECUTORCH_APP_FAILED, std::move(said));
    if (answer != nullptr) {
      *answer = runner::answer_of(used->answer);
    }
    return succeed(error);
  });
}

executorch_app_code executorch_app_generate(
    executorch_app_session* session,
    const uint32_t* tokens,
    size_t token_count,
    uint32_t max_new_tokens,
    executorch_app_answer* answer,
    executorch_app_error* error) {
  return guarded("executorch_app_generate", error, [&](const char* function) {
    if (tokens == nullptr) {
      return missing(function, "tokens", error);
    }
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(session, function, "session"));
    if (!used->chat.expired()) {
      return fail(
          EXECUTORCH_APP_INVALID_ARGUMENT,
          used->program->path() + ": the session has a chat, expected none. Close it, or open another session.",
          error);
    }
    if (token_count < 1 || token_count > runner::kMostTokens || max_new_tokens > runner::kMostTokens) {
      return fail(
          EXECUTORCH_APP_INVALID_ARGUMENT,
          std::string(function) + ": token_count or max_new_tokens: got " + std::to_string(token_count) + " and " +
              std::to_string(max_new_tokens) + ", expected 1 to " + std::to_string(runner::kMostTokens) + " tokens.",
          error);
    }
    const size_t most = max_new_tokens > 0 ? max_new_tokens : runner::ChatOptions().max_new_tokens;
    used->generation = TRY_OR_FAIL(
        EXECUTORCH_APP_FAILED, runner::generate_from_start(*used->program, {tokens, tokens + token_count}, most));
    if (answer != nullptr) {
      *answer = runner::answer_of(used->generation);
    }
    return succeed(error);
  });
}

void executorch_app_stop(executorch_app_chat* chat) {
  const auto stopped = chat == nullptr ? nullptr : runner::find(chat);
  if (stopped != nullptr) {
    stopped->chat->stop();
  }
}

size_t executorch_app_turns(const executorch_app_chat* chat) {
  return look(chat, size_t{0}, [](const executorch_app_chat& opened) { return opened.chat->turns(); });
}

executorch_app_code executorch_app_rewind(
    executorch_app_chat* chat,
    size_t turns,
    executorch_app_error* error) {
  return guarded("executorch_app_rewind", error, [&](const char* function) {
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(chat, function, "chat"));
    if (turns > used->chat->turns()) {
      return fail(
          EXECUTORCH_APP_INVALID_ARGUMENT,
          std::string(function) + ": turns: got " + std::to_string(turns) + ", expected at most " +
              std::to_string(used->chat->turns()) + ", the turns of the chat.",
          error);
    }
    used->chat->rewind(turns);
    return succeed(error);
  });
}

executorch_app_code executorch_app_switch_adapter(
    executorch_app_chat* chat,
    const char* program,
    const char* const* data,
    size_t data_count,
    executorch_app_error* error) {
  return guarded("executorch_app_switch_adapter", error, [&](const char* function) {
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(chat, function, "chat"));
    auto files = TRY_OR_FAIL(
        EXECUTORCH_APP_INVALID_ARGUMENT, runner::texts_of(data, data_count, std::string(function) + ": data"));
    executorch_app_session& session = *used->session;
    size_t index = session.index;
    if (program != nullptr) {
      index = TRY_OR_FAIL(
          EXECUTORCH_APP_INVALID_ARGUMENT, runner::find_program(*session.app, program, function));
    }
    auto loaded = TRY_OR_FAIL(
        data_count > 0 ? EXECUTORCH_APP_INVALID_FILES : EXECUTORCH_APP_NOT_LOADED,
        runner::load_program(session, index, files));
    session.use.begin_change();
    const runner::Status switched = used->chat->switch_program(*loaded);
    if (switched.ok()) {
      runner::set_program(session, index, std::move(files), std::move(loaded));
    }
    session.use.end_change();
    return switched.ok() ? succeed(error) : fail(EXECUTORCH_APP_NOT_LOADED, switched.sentence(), error);
  });
}

executorch_app_code executorch_app_save_chat(
    const executorch_app_chat* chat,
    const char* path,
    executorch_app_error* error) {
  return guarded("executorch_app_save_chat", error, [&](const char* function) {
    if (path == nullptr) {
      return missing(function, "path", error);
    }
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(chat, function, "chat"));
    TRY_OR_FAIL(EXECUTORCH_APP_INVALID_FILES, used->chat->save(path));
    return succeed(error);
  });
}

executorch_app_code executorch_app_restore_chat(
    executorch_app_chat* chat,
    const char* path,
    executorch_app_error* error) {
  return guarded("executorch_app_restore_chat", error, [&](const char* function) {
    if (path == nullptr) {
      return missing(function, "path", error);
    }
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(chat, function, "chat"));
    TRY_OR_FAIL(EXECUTORCH_APP_INVALID_FILES, used->chat->restore(path));
    return succeed(error);
  });
}

executorch_app_code executorch_app_count_tokens(
    const executorch_app_chat* chat,
    const char* message,
    size_t* count,
    executorch_app_error* error) {
  return guarded("executorch_app_count_tokens", error, [&](const char* function) {
    if (message == nullptr || count == nullptr) {
      return missing(function, message == nullptr ? "message" : "count", error);
    }
    const auto used = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, use(chat, function, "chat"));
    *count = TRY_OR_FAIL(EXECUTORCH_APP_INVALID_ARGUMENT, used->chat->tokens_of(message)).size();
    return succeed(error);
  });
}

size_t executorch_app_position(const executorch_app_chat* chat) {
  return look(chat, size_t{0}, [](const executorch_app_chat& opened) {
    return static_cast<size_t>(opened.chat->position());
  });
}

size_t executorch_app_context(const executorch_app_chat* chat) {
  return look(chat, size_t{0}, [](const executorch_app_chat& opened) {
    return static_cast<size_t>(opened.chat->context());
  });
}

size_t executorch_app_room(const executorch_app_chat* chat) {
  return look(chat, size_t{0}, [](const executorch_app_chat& opened) {
    return static_cast<size_t>(opened.chat->room());
  });
}

}  // extern "C"

#include "tools/runner/conversation.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "tools/runner/api/tensors.h"
#include "tools/runner/array_files.h"
#include "tools/runner/base/files.h"
#include "tools/runner/base/os.h"
#include "tools/runner/base/process.h"
#include "tools/runner/base/text.h"

namespace runner {
namespace {

Status check_no_inputs(const Arguments::Program& options) {
  const std::pair<const char*, bool> given[] = {
      {"--bundled", options.is_bundled},
      {"--input", !options.inputs.empty()},
      {"--method", !options.method.empty()},
      {"--output", !options.output.empty()},
      {"--output_format", !options.output_format.empty()},
      {"--text", !options.texts.empty()},
  };
  for (const auto& [option, is_given] : given) {
    if (is_given) {
      return error(std::string(option) +
           " is for runs with inputs, and --prompt has its own; remove one of them.");
    }
  }
  return {};
}

Status check_texts(const Arguments::Program& options) {
  const char* option = options.is_bundled ? "--bundled" : !options.inputs.empty() ? "--input" : nullptr;
  if (!options.texts.empty() && option != nullptr) {
    return error(std::string("--text gives a program's inputs, and ") + option + ", too; remove one of them.");
  }
  return {};
}

// Lines of standard input, as they arrive, also from a non-blocking one.
struct Line {
  std::string text;      // Without the line break.
  bool is_whole = true;  // False: it is too long, and was dropped.
};

class Lines {
 public:
  // Maximum bytes of a line.
  static constexpr size_t kLongest = 1 << 20;

  // The next line; none: the input has ended.
  Result<std::optional<Line>> next();

 private:
  Status read_more();

  std::string waiting_;
  bool has_ended_ = false;
};

Result<std::optional<Line>> Lines::next() {
  Line line;
  for (size_t searched = 0;;) {
    const size_t end = waiting_.find('\n', searched);
    const bool is_end = end != std::string::npos || has_ended_;
    if (is_end && end == std::string::npos && waiting_.empty() && line.is_whole) {
      return std::optional<Line>();
    }
    const size_t size = is_end ? std::min(end, waiting_.size()) : waiting_.size();
    if (size > kLongest) {
      line.is_whole = false;
    }
    if (is_end) {
      line.text = line.is_whole ? waiting_.substr(0, size) : "";
      waiting_.erase(0, end == std::string::npos ? end : end + 1);
      return std::optional(std::move(line));
    }
    // A dropped line needs no memory.
    waiting_.erase(0, line.is_whole ? 0 : std::string::npos);
    searched = waiting_.size();
    TRY(read_more());
  }
}

Status Lines::read_more() {
  char piece[4096];
  const ssize_t length = read(STDIN_FILENO, piece, sizeof(piece));
  if (length >= 0) {
    has_ended_ = length == 0;
    waiting_.append(piece, static_cast<size_t>(length));
  } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    poll(&input, 1, -1);
  } else if (errno != EINTR) {
    return error("--chat: standard input cannot be read: " + last_error() + ".");
  }
  return {};
}

double per_second(size_t count, double milliseconds) {
  return milliseconds > 0 ? 1000.0 * static_cast<double>(count) / milliseconds : 0;
}

std::string part(const char* name, size_t count, double milliseconds) {
  return std::string(name) + ": " + std::to_string(count) + " tokens, " +
      with_digits(per_second(count, milliseconds), 1) + " tokens per second";
}

// One line with the tokens per second.
std::string speed_of(const executorch_app_answer& answer) {
  return part("prefill", answer.prompt_tokens, answer.prefill_ms) + "; " +
      part("decode", answer.decode_tokens, answer.decode_ms);
}

nlohmann::ordered_json json_of_answer(const executorch_app_answer& answer, const std::string& text) {
  const auto ids = [](const uint32_t* first, size_t count) { return std::vector<uint32_t>(first, first + count); };
  return {
      {"text", text},
      {"reason", answer.reason},
      {"prompt_tokens", ids(answer.prompt_token_ids, answer.prompt_tokens)},
      {"tokens", ids(answer.token_ids, answer.tokens)},
      {"prefill_ms", answer.prefill_ms},
      {"prefill_tokens_per_second", per_second(answer.prompt_tokens, answer.prefill_ms)},
      {"decode_ms", answer.decode_ms},
      {"decode_tokens_per_second", per_second(answer.decode_tokens, answer.decode_ms)},
  };
}

// An answer as it is generated.
struct Heard {
  bool prints;
  std::string text;
  Status printed;
};

bool hear(const char* part, size_t size, void* user) {
  Heard& heard = *static_cast<Heard*>(user);
  heard.text.append(part, size);
  if (heard.prints) {
    heard.printed = write_to_stdout({part, size});
  }
  return heard.printed.ok();
}

// Returns the problem as an error, or prints a note with --chat.
Status skip(const Arguments& arguments, const std::string& problem, Conversation& conversation) {
  if (!arguments.chat) {
    return error(problem);
  }
  note(problem);
  conversation.unanswered.push_back({conversation.turns() + 1, problem});
  return {};
}

// The message is too long: begins a new conversation.
Status skip_too_long(
    const Arguments& arguments,
    executorch_app_chat* chat,
    const std::string& said,
    const std::string& program,
    Conversation& conversation) {
  size_t count = 0;
  TRY(call(executorch_app_count_tokens, chat, said.c_str(), &count));
  const size_t position = executorch_app_position(chat);
  const std::string needed = arguments.chat ? "the conversation needs " + std::to_string(position + count)
                                            : "--prompt has " + std::to_string(count);
  const std::string problem = needed + " tokens, and " + program + " holds " +
      std::to_string(executorch_app_context(chat)) + " (get_max_context_len)" +
      (position == 0 ? "; shorten it, or build the program with a larger max_seq_len."
                     : "; a new conversation begins here.");
  TRY(call(executorch_app_rewind, chat, size_t{0}));
  return skip(arguments, problem, conversation);
}

Status turn(
    const Arguments& arguments,
    executorch_app_chat* chat,
    const std::string& said,
    const std::string& program,
    Conversation& conversation) {
  if (said.find('\0') != std::string::npos) {
    return skip(arguments, "--chat: a line has a zero byte; remove it.", conversation);
  }
  Heard heard = {!arguments.json, "", {}};
  executorch_app_answer answer;
  executorch_app_error failure;
  const executorch_app_code code = executorch_app_say(chat, said.c_str(), hear, &heard, &answer, &failure);
  if (code == EXECUTORCH_APP_CONTEXT_FULL) {
    return skip_too_long(arguments, chat, said, program, conversation);
  }
  if (code == EXECUTORCH_APP_INVALID_ARGUMENT) {
    return skip(arguments, failure.sentence, conversation);
  }
  if (code != EXECUTORCH_APP_OK) {
    return error(failure.sentence);
  }
  TRY(std::move(heard.printed));
  if (!arguments.json) {
    TRY(write_to_stdout("\n" + speed_of(answer) + "\n"));
  }
  if (arguments.chat && std::string(answer.reason) == "context") {
    note("the answer ends here: the context of " + std::to_string(executorch_app_context(chat)) +
             " tokens is full.");
  }
  conversation.answers.push_back(json_of_answer(answer, heard.text));
  return {};
}

executorch_app_chat_options chat_options(const Arguments& arguments) {
  executorch_app_chat_options options = {};
  options.tokenizer = arguments.tokenizer.empty() ? nullptr : arguments.tokenizer.c_str();
  options.system = arguments.system.c_str();
  options.raw = arguments.raw_prompt;
  options.temperature = arguments.temperature;
  options.seed = static_cast<uint32_t>(arguments.seed);
  options.max_new_tokens = static_cast<uint32_t>(arguments.max_new_tokens);
  options.parse_special = arguments.parse_special;
  options.multi_turn = arguments.chat;
  return options;
}

// Gives the files of --media to the first message.
Status attach_media(const Arguments& arguments, const OpenProgram& program, executorch_app_chat* chat) {
  constexpr const char* kEncoders[] = {"vision_encoder", "audio_encoder"};
  for (const std::string& file : arguments.media) {
    executorch_app_method method = {};
    for (size_t i = 0; method.name == nullptr && i < executorch_app_method_count(program.session); ++i) {
      const std::string name = executorch_app_method_name(program.session, i);
      if (name == kEncoders[0] || name == kEncoders[1]) {
        TRY(call(executorch_app_describe_method, program.session, name.c_str(), &method));
      }
    }
    if (method.name == nullptr) {
      return error("--media: " + program.path() + " reads no images or recordings: it has no method \"" +
                   kEncoders[0] + "\" or \"" + kEncoders[1] + "\".");
    }
    for (const auto& [array, name] : TRY(read_inputs({file}, "--media: " + program.title(method.name), method))) {
      const executorch_app_tensor media = tensor_of(array, name.c_str());
      TRY(call(executorch_app_attach, chat, &media));
    }
  }
  return {};
}

Status answer_all(
    const Arguments& arguments,
    executorch_app_chat* chat,
    const std::string& program,
    Conversation& conversation) {
  if (!arguments.prompt.empty()) {
    TRY(turn(arguments, chat, arguments.prompt, program, conversation));
  }
  Lines lines;
  while (arguments.chat) {
    if (isatty(STDIN_FILENO)) {
      fputs("> ", stderr);
    }
    const std::optional<Line> line = TRY(lines.next());
    if (!line) {
      break;
    }
    if (!line->is_whole) {
      TRY(skip(
          arguments,
          "--chat: a line has more than " + std::to_string(Lines::kLongest) + " bytes; shorten it.",
          conversation));
    } else if (line->text.find_first_not_of(" \t\r") != std::string::npos) {
      TRY(turn(arguments, chat, line->text, program, conversation));
    }
  }
  return {};
}

}  // namespace

Status check_prompt_options(const Arguments& arguments) {
  if (arguments.answers()) {
    TRY(check_no_inputs(arguments.leading));
    for (const Arguments::Program& program : arguments.programs) {
      TRY(check_no_inputs(program));
    }
    return {};
  }
  bool reads_text = !arguments.leading.texts.empty();
  for (const Arguments::Program& program : arguments.programs) {
    reads_text = reads_text || !program.texts.empty();
    TRY(check_texts(program));
  }
  TRY(check_texts(arguments.leading));
  const char* option = arguments.raw_prompt ? "--raw_prompt" : !arguments.system.empty() ? "--system" : nullptr;
  if (option != nullptr) {
    return error(std::string(option) + " needs a --prompt or --chat.");
  }
  if (!arguments.media.empty()) {
    return error("--media needs a --prompt or --chat.");
  }
  option = arguments.parse_special ? "--parse_special" : !arguments.tokenizer.empty() ? "--tokenizer" : nullptr;
  if (option != nullptr && !reads_text) {
    return error(std::string(option) + " needs a --prompt, --chat or --text.");
  }
  return {};
}

Status converse(const Arguments& arguments, const OpenProgram& program, Conversation& conversation) {
  const executorch_app_chat_options options = chat_options(arguments);
  executorch_app_chat* chat = nullptr;
  TRY(call(executorch_app_open_chat, program.session, &options, &chat));
  Status answered = attach_media(arguments, program, chat);
  if (answered.ok()) {
    answered = answer_all(arguments, chat, program.path(), conversation);
  }
  executorch_app_close_chat(chat);
  return answered;
}

}  // namespace runner

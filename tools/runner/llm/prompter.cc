#include "tools/runner/llm/prompter.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "tools/runner/base/files.h"
#include "tools/runner/base/os.h"
#include "tools/runner/base/process.h"
#include "tools/runner/base/text.h"

namespace runner {
namespace {

constexpr char kTokenizer[] = "tokenizer.json";
constexpr char kFormat[] = "chat_format.json";
constexpr char kConfig[] = "tokenizer_config.json";

// Path of the only asset of that name; "": none.
Result<std::string> asset_path(const std::optional<AppManifest>& app, const char* name) {
  std::string path;
  for (const std::string& asset : app ? app->assets : std::vector<std::string>()) {
    if (base_name(asset) == name) {
      if (!path.empty()) {
        return error("the app " + app->label + " has several files " + name + ": " + path + " and " + asset +
             "; choose with --tokenizer.");
      }
      path = asset;
    }
  }
  return path.empty() ? "" : app->folder + path;
}

// Beside the tokenizer, otherwise in the app's assets.
Result<std::string> format_path(
    const Arguments& arguments,
    const std::string& tokenizer,
    const std::optional<AppManifest>& app) {
  const std::string beside_it = beside(tokenizer, kFormat);
  const std::string asset =
      arguments.tokenizer.empty() && !is_file(beside_it) ? TRY(asset_path(app, kFormat)) : "";
  return asset.empty() ? beside_it : asset;
}

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

// The model's chat format; none: the model gets the prompt alone.
Result<std::optional<ChatFormat>> format_for(
    const Arguments& arguments,
    const std::optional<AppManifest>& app) {
  if (arguments.raw_prompt) {
    if (!arguments.system.empty()) {
      return error("--system: with --raw_prompt the prompt is the model's whole input; remove one of them.");
    }
    if (arguments.parse_special) {
      return error("--parse_special: with --raw_prompt the special tokens of a prompt are always tokens; remove "
           "one of them.");
    }
    return std::optional<ChatFormat>();
  }
  if (!is_utf8(arguments.system)) {
    return error("--system is not UTF-8.");
  }
  const std::string tokenizer = TRY(tokenizer_path(arguments, app));
  const std::string path = TRY(format_path(arguments, tokenizer, app));
  if (!is_file(path)) {
    return error(path + " is missing: it has the model's chat template; create it with llm_tokenizer" +
         (is_file(beside(tokenizer, kConfig)) ? std::string(" from ") + kConfig : "") +
         ", or pass the whole text with --raw_prompt.");
  }
  ChatFormat format = TRY(ChatFormat::read(path));
  if (arguments.chat) {
    TRY(format.check_has_next());
  }
  return std::optional(std::move(format));
}

std::string part(const char* name, size_t count, double milliseconds) {
  return std::string(name) + ": " + std::to_string(count) + " tokens, " +
      with_digits(per_second(count, milliseconds), 1) + " tokens per second";
}

// One line with the tokens per second.
std::string speed_of(const Answer& answer) {
  return part("prefill", answer.prompt_tokens.size(), answer.prefill_ms) + "; " +
      part("decode", answer.decode_tokens, answer.decode_ms);
}

}  // namespace

Result<std::string> tokenizer_path(const Arguments& arguments, const std::optional<AppManifest>& app) {
  const std::string path =
      arguments.tokenizer.empty() ? TRY(asset_path(app, kTokenizer)) : arguments.tokenizer;
  if (path.empty()) {
    return error(std::string(arguments.answers() ? "--prompt" : "--text") + " needs a tokenizer: name a " + kTokenizer +
         " with --tokenizer, or put it into the app's data.");
  }
  return path;
}

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
  option = arguments.parse_special ? "--parse_special" : !arguments.tokenizer.empty() ? "--tokenizer" : nullptr;
  if (option != nullptr && !reads_text) {
    return error(std::string(option) + " needs a --prompt, --chat or --text.");
  }
  return {};
}

Result<ChatText> read_chat_text(const Arguments& arguments, const std::optional<AppManifest>& app) {
  ChatText text;
  text.format = TRY(format_for(arguments, app));
  text.tokenizer = TRY(Tokenizer::read(TRY(Tokenizer::read_file(TRY(tokenizer_path(arguments, app))))));
  text.system = arguments.system;
  text.parse_special = arguments.parse_special;
  return text;
}

ChatOptions chat_options(const Arguments& arguments) {
  const auto seed = arguments.seed > 0 ? static_cast<uint64_t>(arguments.seed)
                                       : static_cast<uint64_t>(now().time_since_epoch().count());
  return {arguments.temperature, seed, static_cast<size_t>(arguments.max_new_tokens)};
}

Result<std::unique_ptr<Prompter>> Prompter::create(
    const Arguments& arguments,
    const std::optional<AppManifest>& app) {
  return std::unique_ptr<Prompter>(new Prompter(arguments, TRY(read_chat_text(arguments, app))));
}

Status Prompter::skip(const std::string& problem, Conversation& conversation) const {
  if (!arguments_.chat) {
    return error(problem);
  }
  note(problem);
  conversation.unanswered.push_back({conversation.turns() + 1, problem});
  return {};
}

Status Prompter::turn(
    const std::string& said,
    Chat& chat,
    const std::string& program,
    Conversation& conversation) const {
  const bool is_first = chat.position() == 0;
  const Result<std::vector<uint32_t>> encoded = chat.tokens_of(said);
  if (!encoded.ok()) {
    return skip(encoded.sentence(), conversation);
  }
  const std::vector<uint32_t>& tokens = *encoded;
  if (tokens.size() > chat.room()) {
    const std::string capacity = " holds " + std::to_string(chat.context()) +
        " (get_max_context_len)";
    const std::string remedy = "; shorten it, or build the program with a larger max_seq_len.";
    const std::string needed = arguments_.chat
        ? "the conversation needs " + std::to_string(chat.position() + tokens.size())
        : "--prompt has " + std::to_string(tokens.size());
    chat.rewind(0);
    return skip(
        needed + " tokens, and " + program + capacity +
            (is_first ? remedy : "; a new conversation begins here."),
        conversation);
  }
  const Answer answer = TRY(chat.say(tokens, [&](const std::string& text) {
    return arguments_.json ? Status() : write_to_stdout(text);
  }));
  if (!arguments_.json) {
    TRY(write_to_stdout("\n" + speed_of(answer) + "\n"));
  }
  if (arguments_.chat && answer.reason == "context") {
    note("the answer ends here: the context of " + std::to_string(chat.context()) +
             " tokens is full.");
  }
  conversation.answers.push_back(answer);
  return {};
}

Status Prompter::converse(Program& program, Conversation& conversation) const {
  const auto chat = TRY(Chat::open(program, text_, chat_options(arguments_)));
  if (!arguments_.prompt.empty()) {
    TRY(turn(arguments_.prompt, *chat, program.path(), conversation));
  }
  Lines lines;
  while (arguments_.chat) {
    if (isatty(STDIN_FILENO)) {
      fputs("> ", stderr);
    }
    const std::optional<Line> line = TRY(lines.next());
    if (!line) {
      break;
    }
    if (!line->is_whole) {
      TRY(skip(
          "--chat: a line has more than " + std::to_string(Lines::kLongest) + " bytes; shorten it.",
          conversation));
    } else if (line->text.find_first_not_of(" \t\r") != std::string::npos) {
      TRY(turn(line->text, *chat, program.path(), conversation));
    }
  }
  return {};
}

}  // namespace runner

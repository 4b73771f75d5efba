#include "tools/runner/llm/prompt.h"

#include "tools/runner/base/clock.h"
#include "tools/runner/base/fail.h"
#include "tools/runner/base/mapped_file.h"
#include "tools/runner/base/output.h"
#include "tools/runner/base/paths.h"
#include "tools/runner/llm/lines.h"
#include "tools/runner/llm/utf8.h"

namespace runner {
namespace {

constexpr char kTokenizer[] = "tokenizer.json";
constexpr char kFormat[] = "chat_format.json";
constexpr char kConfig[] = "tokenizer_config.json";

// Path of the only asset of that name; "": there is none.
std::string asset_path(const std::optional<AppManifest>& app, const char* name) {
  std::string found;
  for (const std::string& asset : app ? app->assets : std::vector<std::string>()) {
    if (base_name(asset) == name) {
      if (!found.empty()) {
        fail("the app " + app->label + " has several files " + name + ": " + found + " and " + asset +
             "; choose with --tokenizer.");
      }
      found = asset;
    }
  }
  return found.empty() ? "" : app->folder + found;
}

std::string tokenizer_path(const Arguments& arguments, const std::optional<AppManifest>& app) {
  const std::string path =
      arguments.tokenizer.empty() ? asset_path(app, kTokenizer) : arguments.tokenizer;
  if (path.empty()) {
    fail(std::string("--prompt needs a tokenizer: name a ") + kTokenizer +
         " with --tokenizer, or put it into the app's data.");
  }
  return path;
}

// Beside the tokenizer, else among the app's assets.
std::string format_path(
    const Arguments& arguments,
    const std::string& tokenizer,
    const std::optional<AppManifest>& app) {
  const std::string beside_it = beside(tokenizer, kFormat);
  const std::string asset =
      arguments.tokenizer.empty() && !is_file(beside_it) ? asset_path(app, kFormat) : "";
  return asset.empty() ? beside_it : asset;
}

void check_no_inputs(const Arguments::Program& options) {
  const std::pair<const char*, bool> given[] = {
      {"--bundled", options.is_bundled},
      {"--input", !options.inputs.empty()},
      {"--method", !options.method.empty()},
      {"--output", !options.output.empty()},
      {"--output_format", !options.output_format.empty()},
  };
  for (const auto& [option, is_given] : given) {
    if (is_given) {
      fail(std::string(option) +
           " is for runs with inputs, and --prompt makes its own; leave one of them out.");
    }
  }
}

// How the model wants a conversation; none: it gets the prompt alone.
std::optional<ChatFormat> format_for(
    const Arguments& arguments,
    const std::optional<AppManifest>& app) {
  if (arguments.raw_prompt) {
    if (!arguments.system.empty()) {
      fail("--system: with --raw_prompt the prompt is all that the model gets; leave one of them out.");
    }
    return std::nullopt;
  }
  const std::string tokenizer = tokenizer_path(arguments, app);
  const std::string path = format_path(arguments, tokenizer, app);
  if (!is_file(path)) {
    fail(path + " is missing, which says how the model wants a conversation; make it with chat_format of "
         "@rules_executorch//tools/llm:tokenizer.bzl" +
         (is_file(beside(tokenizer, kConfig)) ? std::string(" from ") + kConfig : "") +
         ", or give the whole text with --raw_prompt.");
  }
  ChatFormat format = ChatFormat::read(path);
  if (arguments.chat) {
    format.check_has_next();
  }
  return format;
}

}  // namespace

void check_prompt_options(const Arguments& arguments) {
  if (arguments.answers()) {
    check_no_inputs(arguments.leading);
    for (const Arguments::Program& program : arguments.programs) {
      check_no_inputs(program);
    }
    return;
  }
  const char* option = arguments.raw_prompt ? "--raw_prompt"
      : !arguments.system.empty()           ? "--system"
      : !arguments.tokenizer.empty()        ? "--tokenizer"
                                            : nullptr;
  if (option != nullptr) {
    fail(std::string(option) + " needs a --prompt or --chat.");
  }
}

Prompter::Prompter(const Arguments& arguments, const std::optional<AppManifest>& app)
    : arguments_(arguments),
      format_(format_for(arguments, app)),
      tokenizer_(tokenizer_path(arguments, app)) {}

std::vector<uint32_t> Prompter::tokens_of(const std::string& said, bool is_first) const {
  std::string text = said;
  if (format_) {
    text = is_first ? format_->render(said, arguments_.system) : format_->render_next(said);
  }
  if (!is_utf8(text)) {
    fail("--prompt, --system and lines of --chat have to be text in UTF-8.");
  }
  std::vector<uint32_t> tokens = tokenizer_.encode(text);
  if (tokens.empty()) {
    fail("--prompt: there are no tokens to read; give a prompt that isn't empty.");
  }
  return tokens;
}

std::optional<Answer> Prompter::turn(
    const std::string& said,
    Session& session,
    Sampler& sampler,
    const std::string& program) const {
  const bool is_first = session.position() == 0;
  const std::vector<uint32_t> tokens = tokens_of(said, is_first);
  if (tokens.size() > session.room()) {
    const std::string held = " holds " + std::to_string(session.model().context()) +
        " (get_max_context_len)";
    const std::string remedy = "; shorten it, or build the program with a larger max_seq_len.";
    if (is_first && !arguments_.chat) {
      fail("--prompt has " + std::to_string(tokens.size()) + " tokens, and " + program + held + remedy);
    }
    note(
        "the conversation needs " + std::to_string(session.position() + tokens.size()) +
        " tokens, and " + program + held + (is_first ? remedy : "; a new conversation begins here."));
    session.clear();
    return std::nullopt;
  }
  const auto say = [this](std::string_view text) {
    if (!arguments_.json) {
      print(text);
    }
  };
  Answer answer = runner::answer(
      tokens,
      tokenizer_,
      session,
      program,
      sampler,
      static_cast<size_t>(arguments_.max_new_tokens),
      say);
  if (!arguments_.json) {
    print("\n" + speed_of(answer) + "\n");
  }
  if (arguments_.chat && answer.reason == "context") {
    note("the answer ends here: the context of " + std::to_string(session.model().context()) +
             " tokens is full.");
  }
  return answer;
}

std::vector<Answer> Prompter::converse(Program& program) const {
  LanguageModel model(program);
  Session session(model);
  const auto seed = arguments_.seed > 0 ? static_cast<uint64_t>(arguments_.seed)
                                         : static_cast<uint64_t>(now().time_since_epoch().count());
  Sampler sampler(arguments_.temperature, seed);
  std::vector<Answer> answers;
  const auto add = [&](const std::string& said) {
    if (std::optional<Answer> answer = turn(said, session, sampler, program.path())) {
      answers.push_back(std::move(*answer));
    }
  };
  if (!arguments_.prompt.empty()) {
    add(arguments_.prompt);
  }
  Lines lines;
  while (arguments_.chat) {
    const std::optional<std::string> line = lines.next();
    if (!line) {
      break;
    }
    if (line->find_first_not_of(" \t\r") != std::string::npos) {
      add(*line);
    }
  }
  return answers;
}

}  // namespace runner

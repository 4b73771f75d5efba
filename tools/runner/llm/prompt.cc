#include "tools/runner/llm/prompt.h"

#include "tools/runner/base/clock.h"
#include "tools/runner/base/fail.h"
#include "tools/runner/base/mapped_file.h"
#include "tools/runner/base/output.h"
#include "tools/runner/base/paths.h"

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

// The prompt as the model wants it.
std::string text_for(const Arguments& arguments, const std::optional<AppManifest>& app) {
  if (arguments.raw_prompt) {
    if (!arguments.system.empty()) {
      fail("--system: with --raw_prompt the prompt is all that the model gets; leave one of them out.");
    }
    return arguments.prompt;
  }
  const std::string tokenizer = tokenizer_path(arguments, app);
  const std::string path = format_path(arguments, tokenizer, app);
  if (!is_file(path)) {
    fail(path + " is missing, which says how the model wants a conversation; make it with chat_format of "
         "@rules_executorch//tools/llm:tokenizer.bzl" +
         (is_file(beside(tokenizer, kConfig)) ? std::string(" from ") + kConfig : "") +
         ", or give the whole text with --raw_prompt.");
  }
  return ChatFormat::read(path).render(arguments.prompt, arguments.system);
}

}  // namespace

void check_prompt_options(const Arguments& arguments) {
  if (!arguments.prompt.empty()) {
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
    fail(std::string(option) + " needs a --prompt.");
  }
}

Prompter::Prompter(const Arguments& arguments, const std::optional<AppManifest>& app)
    : arguments_(arguments),
      text_(text_for(arguments, app)),
      tokenizer_(tokenizer_path(arguments, app)) {}

Answer Prompter::answer(Program& program) const {
  LanguageModel model(program);
  const auto seed = arguments_.seed > 0 ? static_cast<uint64_t>(arguments_.seed)
                                         : static_cast<uint64_t>(now().time_since_epoch().count());
  Sampler sampler(arguments_.temperature, seed);
  const auto say = [this](std::string_view text) {
    if (!arguments_.json) {
      print(text);
    }
  };
  Answer answer = runner::answer(
      text_,
      tokenizer_,
      model,
      program.path(),
      sampler,
      static_cast<size_t>(arguments_.max_new_tokens),
      say);
  if (!arguments_.json) {
    print("\n" + speed_of(answer) + "\n");
  }
  return answer;
}

}  // namespace runner

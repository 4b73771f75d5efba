#include "tools/runner/llm/text_files.h"

#include <optional>
#include <utility>

#include "tools/runner/base/files.h"
#include "tools/runner/base/text.h"

namespace runner {
namespace {

constexpr char kTokenizer[] = "tokenizer.json";
constexpr char kFormat[] = "chat_format.json";
constexpr char kConfig[] = "tokenizer_config.json";

// Path of the only asset of that name; "": none.
Result<std::string> asset_path(const std::shared_ptr<const Manifest>& app, const char* name) {
  std::string path;
  if (app == nullptr) {
    return path;
  }
  for (const auto& [asset, about] : app->files) {
    if (asset.rfind("assets/", 0) == 0 && base_name(asset) == name) {
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
    const std::string& chosen,
    const std::string& tokenizer,
    const std::shared_ptr<const Manifest>& app) {
  const std::string beside_it = beside(tokenizer, kFormat);
  const std::string asset =
      chosen.empty() && !is_file(beside_it) ? TRY(asset_path(app, kFormat)) : "";
  return asset.empty() ? beside_it : asset;
}

// The model's chat format; none: the model gets the prompt alone.
Result<std::optional<ChatFormat>> format_for(
    const TextOptions& options,
    const std::shared_ptr<const Manifest>& app) {
  if (options.raw) {
    if (!options.system.empty()) {
      return error("--system: with --raw_prompt the prompt is the model's whole input; remove one of them.");
    }
    if (options.parse_special) {
      return error("--parse_special: with --raw_prompt the special tokens of a prompt are always tokens; remove "
           "one of them.");
    }
    return std::optional<ChatFormat>();
  }
  if (!is_utf8(options.system)) {
    return error("--system is not UTF-8.");
  }
  const std::string tokenizer = TRY(tokenizer_path(options.tokenizer, app, "--prompt"));
  const std::string path = TRY(format_path(options.tokenizer, tokenizer, app));
  if (!is_file(path)) {
    return error(path + " is missing: it has the model's chat template; create it with et_llm_tokenizer" +
         (is_file(beside(tokenizer, kConfig)) ? std::string(" from ") + kConfig : "") +
         ", or pass the whole text with --raw_prompt.");
  }
  ChatFormat format = TRY(ChatFormat::read(path));
  if (options.multi_turn) {
    TRY(format.check_has_next(options.system));
  }
  return std::optional(std::move(format));
}

}  // namespace

Result<std::string> tokenizer_path(
    const std::string& tokenizer,
    const std::shared_ptr<const Manifest>& app,
    const std::string& needed_by) {
  const std::string path = tokenizer.empty() ? TRY(asset_path(app, kTokenizer)) : tokenizer;
  if (path.empty()) {
    return error(needed_by + " needs a tokenizer: name a " + kTokenizer + " with --tokenizer, or put it into the app's data.");
  }
  return path;
}

Result<ChatText> read_chat_text(const TextOptions& options, const std::shared_ptr<const Manifest>& app) {
  ChatText text;
  text.format = TRY(format_for(options, app));
  const std::string tokenizer = TRY(tokenizer_path(options.tokenizer, app, "--prompt"));
  text.tokenizer = TRY(Tokenizer::read(TRY(Tokenizer::read_file(tokenizer))));
  text.system = options.system;
  text.parse_special = options.parse_special;
  return text;
}

}  // namespace runner

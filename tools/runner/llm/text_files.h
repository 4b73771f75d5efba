// Files of a chat beside its program: the tokenizer and the chat format, named by an option or in the app's assets.
#pragma once

#include <memory>
#include <string>

#include "tools/runner/files/manifest.h"
#include "tools/runner/llm/chat.h"

namespace runner {

struct TextOptions {
  std::string tokenizer;       // A tokenizer.json, with chat_format.json beside it; "": the app's.
  std::string system;          // "": the chat template's.
  bool raw = false;            // Without a chat format.
  bool parse_special = false;  // Special tokens in messages are tokens, not text.
  bool multi_turn = false;     // The chat format must have a second message.
};

// `tokenizer`, or the tokenizer.json of the app's assets; an error, which begins with the option `needed_by`, if there
// is none.
Result<std::string> tokenizer_path(
    const std::string& tokenizer,
    const std::shared_ptr<const Manifest>& app,
    const std::string& needed_by);

// An error, if a file is missing or malformed, or if the options exclude each other.
Result<ChatText> read_chat_text(const TextOptions& options, const std::shared_ptr<const Manifest>& app);

}  // namespace runner

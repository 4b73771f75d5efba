// The form in which a model wants a conversation, as texts around what is said in it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace runner {

class ChatFormat {
 public:
  // Of a chat_format.json, which //tools/llm:tokenizer.bzl makes of a chat template. Ends the
  // process with a sentence if it is none.
  static ChatFormat read(const std::string& path);

  // A prompt as the model wants it; `system` is what it is told before anything else, "": what the
  // template says. Ends the process with a sentence if the template takes none.
  std::string render(const std::string& prompt, const std::string& system) const;

  // The next prompt of a conversation, as it comes after an answer. Ends the process with a sentence if
  // the template has no form for that.
  std::string render_next(const std::string& prompt) const;

  // Ends the process with that sentence.
  void check_has_next() const;

 private:
  std::string path_;
  std::vector<std::string> around_prompt_;  // Two texts.
  std::optional<std::vector<std::string>> around_system_and_prompt_;  // Three texts.
  std::optional<std::vector<std::string>> around_next_;  // Two texts.
  bool trims_ = false;
};

}  // namespace runner

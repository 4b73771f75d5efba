// --prompt and --chat: what files answers need, and what is printed of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/runner/app/app_manifest.h"
#include "tools/runner/arguments.h"
#include "tools/runner/llm/answer.h"
#include "tools/runner/llm/chat_format.h"

namespace runner {

// Ends the process with a sentence if there are options that belong to prompts without one, or to runs
// with inputs beside one.
void check_prompt_options(const Arguments& arguments);

// A tokenizer and the form of conversations that goes with it.
class Prompter {
 public:
  // Of --tokenizer, or of the app's assets. Ends the process with a sentence if there is none.
  Prompter(const Arguments& arguments, const std::optional<AppManifest>& app);

  // Answers --prompt, and with --chat each line of standard input; prints answers as they come, unless
  // --json is given. A conversation that is full ends with a sentence, and the next line begins another.
  std::vector<Answer> converse(Program& program) const;

 private:
  std::vector<uint32_t> tokens_of(const std::string& said, bool is_first) const;
  // The answer; none: the conversation has no room for what was said.
  std::optional<Answer> turn(
      const std::string& said,
      Session& session,
      Sampler& sampler,
      const std::string& program) const;

  const Arguments& arguments_;
  std::optional<ChatFormat> format_;  // None: --raw_prompt.
  Tokenizer tokenizer_;
};

}  // namespace runner

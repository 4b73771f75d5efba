// --prompt: what files an answer needs, and what is printed of it.
#pragma once

#include <optional>
#include <string>

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

  // Answers --prompt; prints it as it comes, unless --json is given.
  Answer answer(Program& program) const;

 private:
  const Arguments& arguments_;
  std::string text_;
  Tokenizer tokenizer_;
};

}  // namespace runner

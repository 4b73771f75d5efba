// --prompt and --chat: their files and options, and the conversation of a command line.
//
// Each turn of a conversation has an answer, or is in `unanswered` with the reason: no turn is silently lost.
// Only a failure of the program itself, or of standard input and output, ends the conversation.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/runner/app/app_manifest.h"
#include "tools/runner/arguments.h"
#include "tools/runner/llm/chat.h"

namespace runner {

// An error for options of prompts without a prompt, and for options of runs with inputs beside a prompt.
Status check_prompt_options(const Arguments& arguments);

// --tokenizer, or the tokenizer.json of the app's assets; an error, if there is none.
Result<std::string> tokenizer_path(const Arguments& arguments, const std::optional<AppManifest>& app);

// The tokenizer and chat format of --tokenizer, or of the app's assets; an error, if there is none.
Result<ChatText> read_chat_text(const Arguments& arguments, const std::optional<AppManifest>& app);

// A random seed, unless --seed is given.
ChatOptions chat_options(const Arguments& arguments);

// A message without an answer.
struct UnansweredTurn {
  size_t turn;  // From 1 on; includes answered turns.
  std::string problem;
};

struct Conversation {
  std::vector<Answer> answers;
  std::vector<UnansweredTurn> unanswered;

  size_t turns() const { return answers.size() + unanswered.size(); }
};

// Prompts of a command line.
class Prompter {
 public:
  // From --tokenizer, or from the app's assets; an error, if there is none. `arguments` must outlive this object.
  static Result<std::unique_ptr<Prompter>> create(
      const Arguments& arguments,
      const std::optional<AppManifest>& app);

  // Answers --prompt, and with --chat each line of standard input. Prints answers as they are generated, unless
  // --json is given. With --chat, prints a note for a line without an answer and continues; when the context is full, the
  // next line begins another conversation. Fills in `conversation` step by step, also before an error.
  Status converse(Program& program, Conversation& conversation) const;

 private:
  Prompter(const Arguments& arguments, ChatText text)
      : arguments_(arguments), text_(std::move(text)) {}

  Status turn(
      const std::string& said,
      Chat& chat,
      const std::string& program,
      Conversation& conversation) const;
  // Returns the problem as an error, or prints a note with --chat.
  Status skip(const std::string& problem, Conversation& conversation) const;

  const Arguments& arguments_;
  ChatText text_;
};

}  // namespace runner

// --prompt and --chat: their files and options, and answers token by token.
//
// Each turn of a conversation has an answer, or is in `unanswered` with the reason: no turn is silently lost.
// Only a failure of the program itself, or of standard input and output, ends the conversation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/runner/app/app_manifest.h"
#include "tools/runner/arguments.h"
#include "tools/runner/llm/language_model.h"
#include "tools/runner/llm/tokenizer.h"

namespace runner {

// An error for options of prompts without a prompt, and for options of runs with inputs beside a prompt.
Status check_prompt_options(const Arguments& arguments);

// A model's chat template as texts around the messages.
class ChatFormat {
 public:
  // From a chat_format.json, which the rule chat_format derives from a chat template.
  static Result<ChatFormat> read(const std::string& path);

  // A prompt in the template; `system` is the system message, "": the template's. An error, if the template has no
  // system message.
  Result<std::vector<TextPart>> render(const std::string& prompt, const std::string& system) const;

  // The next prompt of a conversation, after an answer. An error, if the template does not support that.
  Result<std::vector<TextPart>> render_next(const std::string& prompt) const;
  Status check_has_next() const;

 private:
  TextPart said(const std::string& text) const;

  std::string path_;
  std::vector<std::string> around_prompt_;  // Two texts.
  std::optional<std::vector<std::string>> around_system_and_prompt_;  // Three texts.
  std::optional<std::vector<std::string>> around_next_;  // Two texts.
  bool trims_ = false;
};

struct Answer {
  std::string text;
  // Why it ended: "end" (the model ended it), "length" (the maximum number of tokens) or
  // "context" (the KV cache is full).
  std::string reason;
  std::vector<uint32_t> prompt_tokens;
  std::vector<uint32_t> tokens;  // Without the one that ended it.
  double prefill_ms = 0;
  size_t decode_tokens = 0;  // Calls with one token.
  double decode_ms = 0;
};

double per_second(size_t count, double milliseconds);

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

// A tokenizer and the model's chat format.
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
  explicit Prompter(const Arguments& arguments) : arguments_(arguments) {}

  // The tokens of a message, or an error.
  Result<std::vector<uint32_t>> tokens_of(const std::string& said, bool is_first) const;
  Result<Answer> answer(
      const std::vector<uint32_t>& said,
      Session& session,
      const std::string& program,
      Sampler& sampler) const;
  Status turn(
      const std::string& said,
      Session& session,
      Sampler& sampler,
      const std::string& program,
      Conversation& conversation) const;
  // Returns the problem as an error, or prints a note with --chat.
  Status skip(const std::string& problem, Conversation& conversation) const;

  const Arguments& arguments_;
  std::optional<ChatFormat> format_;  // None: --raw_prompt.
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace runner

// --prompt and --chat: what files answers need, what is printed of them, and answers token by token.
//
// Each turn of a conversation has an answer, or is in `unanswered` with the reason: none is lost without a
// word. Only a failure of the program itself, or of standard input and output, ends the conversation.
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

// An error, if there are options that belong to prompts without one, or to runs with inputs beside one.
Status check_prompt_options(const Arguments& arguments);

// The form in which a model wants a conversation, as texts around what is said in it.
class ChatFormat {
 public:
  // Of a chat_format.json, which the rule chat_format makes of a chat template. An error, if it is none.
  static Result<ChatFormat> read(const std::string& path);

  // A prompt as the model wants it; `system` is what it is told before anything else, "": what the
  // template says. An error, if the template takes none.
  Result<std::vector<TextPart>> render(const std::string& prompt, const std::string& system) const;

  // The next prompt of a conversation, as it comes after an answer. An error, if the template has no form
  // for that.
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
  // Why it ended: "end" (the model ended it), "length" (as many tokens as were asked for) or
  // "context" (the KV cache is full).
  std::string reason;
  std::vector<uint32_t> prompt_tokens;
  std::vector<uint32_t> tokens;  // Without the one that ended it.
  double prefill_ms = 0;
  size_t decode_tokens = 0;  // Calls with one token.
  double decode_ms = 0;
};

double per_second(size_t count, double milliseconds);

// What was said and got no answer.
struct UnansweredTurn {
  size_t turn;  // From 1 on, those with an answer counted, too.
  std::string problem;
};

struct Conversation {
  std::vector<Answer> answers;
  std::vector<UnansweredTurn> unanswered;

  size_t turns() const { return answers.size() + unanswered.size(); }
};

// A tokenizer and the form of conversations that goes with it.
class Prompter {
 public:
  // Of --tokenizer, or of the app's assets; an error, if there is none. `arguments` have to live as long.
  static Result<std::unique_ptr<Prompter>> create(
      const Arguments& arguments,
      const std::optional<AppManifest>& app);

  // Answers --prompt, and with --chat each line of standard input; prints answers as they come, unless
  // --json is given. With --chat what can't be answered is a note, and the conversation goes on; one that is
  // full ends so, and the next line begins another. Fills in `conversation` as it goes on, also where it
  // ends with an error.
  Status converse(Program& program, Conversation& conversation) const;

 private:
  explicit Prompter(const Arguments& arguments) : arguments_(arguments) {}

  // Their tokens, or why there are none.
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
  // The problem as an error, or, with --chat, a note.
  Status skip(const std::string& problem, Conversation& conversation) const;

  const Arguments& arguments_;
  std::optional<ChatFormat> format_;  // None: --raw_prompt.
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace runner

// A chat with a language model: messages in, answers token by token.
//
// The chat's cursor and the KV cache must agree: a failed answer rewinds to the message before it, so the next
// message never continues an answer that its caller did not get.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/runner/llm/language_model.h"
#include "tools/runner/llm/tokenizer.h"

namespace runner {

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
  // `system` as in render.
  Status check_has_next(const std::string& system) const;

  // Says what the template changes of a turn when another message follows; "": nothing.
  std::string change_of(const std::string& prompt, const std::string& answer) const;
  // An error that says that no message can follow such a change.
  Status no_next(const std::string& change) const;

 private:
  TextPart said(const std::string& text) const;

  std::string path_;
  std::vector<std::string> around_prompt_;  // Two texts.
  std::optional<std::vector<std::string>> around_system_and_prompt_;  // Three texts.
  std::optional<std::vector<std::string>> around_next_;  // Two texts.
  // The template's changes of earlier turns.
  bool changes_system_ = false;
  bool changes_empty_ = false;
  bool changes_start_ = false;  // White space there.
  bool changes_end_ = false;
  std::vector<std::string> changes_texts_;
  bool trims_ = false;
};

struct Answer : Generation {
  std::string text;
};

// A tokenizer and the model's chat format.
struct ChatText {
  // The tokens of a message, or an error. `place` is a token in it although it is a user's text; "": there is none.
  Result<std::vector<uint32_t>> tokens_of(const std::string& message, bool is_first, const std::string& place) const;

  std::optional<ChatFormat> format;  // None: a message is the model's whole input.
  std::unique_ptr<Tokenizer> tokenizer;
  std::string system;          // The system message; "": the template's.
  bool parse_special = false;  // Special tokens in a message are tokens, not text.
};

struct ChatOptions {
  double temperature = 0;
  uint64_t seed = 0;
  size_t max_new_tokens = 256;
};

class Chat {
 public:
  // Receives an answer's text in parts; an error ends the answer.
  using Listener = std::function<Status(const std::string& text)>;

  // `program` (or the one switched to) and `text` must outlive this object. A program has one chat at a time.
  static Result<std::unique_ptr<Chat>> open(
      Program& program,
      const ChatText& text,
      const ChatOptions& options);
  Chat(const Chat&) = delete;
  Chat& operator=(const Chat&) = delete;

  // The method that reads an image or a recording; an error, if a message can have none.
  Result<std::string> encoder() const;

  // Runs the encoder, and gives its result to the next message, which has a place for it: the token that the metadata
  // name, once or as often as there are positions.
  Status attach(const Inputs& inputs);

  // The tokens that a message would add, with those of what is attached.
  Result<std::vector<uint32_t>> tokens_of(const std::string& message) const;

  uint64_t context() const { return model_.context(); }
  uint64_t position() const { return session_.position(); }
  uint64_t room() const { return session_.room(); }

  // Answers a message, whose tokens must fit into `room`.
  Result<Answer> say(const std::vector<uint32_t>& tokens, const Listener& listener);

  // Ends the current answer after its next token; for any thread.
  void stop() { is_stopped_ = true; }

  size_t turns() const { return turns_.size(); }

  // Keeps that many turns, and forgets later ones and what is attached.
  void rewind(size_t turn);

  // Continues with another program that has the same tokenizer, such as one with another adapter. The next message
  // reads the conversation's tokens once more. `program` must outlive this object. An error leaves the chat as it is.
  Status switch_program(Program& program);

  // Writes the conversation and its KV cache to a file.
  Status save(const std::string& path) const;

  // Continues a saved conversation in place of this one, which an error leaves as it is.
  Status restore(const std::string& path);

 private:
  Chat(LanguageModel model, const ChatText& text, const ChatOptions& options);
  // Those of a conversation that was restored, of which only the tokens are known: not where an answer begins.
  std::vector<std::string> restored_changes() const;
  Result<Answer> answer(const std::vector<uint32_t>& said, const Listener& listener);
  // Puts what is attached into its places.
  Result<std::vector<uint32_t>> with_media(const std::vector<uint32_t>& tokens, uint32_t place) const;
  void detach();

  LanguageModel model_;
  Session session_;
  const ChatText& text_;
  Sampler sampler_;
  size_t max_new_tokens_;
  std::vector<uint32_t> attached_;  // Numbers of images and recordings.
  std::vector<Session::Cursor> turns_;  // Where each begins.
  std::vector<std::string> changes_;  // Of each turn: what the chat template changes when another message follows.
  std::atomic<bool> is_stopped_{false};
};

}  // namespace runner

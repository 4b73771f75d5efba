// What a program's KV cache holds of a conversation, and how it goes on.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/runner/llm/language_model.h"

namespace runner {

// A program has one cache, so it serves one session at a time.
class Session {
 public:
  explicit Session(LanguageModel& model) : model_(model) {}

  const LanguageModel& model() const { return model_; }

  // How many tokens the conversation has, those that were said and not read yet included.
  uint64_t position() const { return read_ + unread_.size(); }

  // How many more fit.
  uint64_t room() const { return model_.context() > position() ? model_.context() - position() : 0; }

  // Adds tokens that are read with the next ones.
  void say(uint32_t token) { unread_.push_back(token); }

  // Reads tokens that fit, in calls of as many as the program takes; the logits after the last one.
  const std::vector<float>& read(const std::vector<uint32_t>& tokens);

  // A new conversation: what the cache holds will be written over.
  void clear();

 private:
  LanguageModel& model_;
  uint64_t read_ = 0;
  std::vector<uint32_t> unread_;
};

}  // namespace runner

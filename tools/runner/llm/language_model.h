// A language model's program as one conversation at a time: tokens in, logits of the next one out.
//
// The KV cache lies inside of the program, so a program has one conversation. Session knows how many tokens
// the cache holds; a position past them, or one that is read twice, would give wrong logits without an error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/runner/engine/program.h"

namespace runner {

class LanguageModel {
 public:
  // An error, if the program is no language model: it has `forward(tokens, input_pos)`, or `prefill` or
  // `prefill_N` and `decode` of that form, and says how long its context is, what ends an answer, and how
  // many tokens a call reads at most. `program` has to live as long.
  static Result<LanguageModel> open(Program& program);

  // Whether it may be one.
  static bool is_one(const Program& program);

  uint64_t context() const { return context_; }
  bool ends_with(uint32_t token) const;

  // How many of so many tokens the next call reads.
  size_t next_count(size_t left) const;

  // Reads that many tokens, the first one at `position`; the logits after the last of them, until the next
  // call.
  Result<const std::vector<float>*> run(const uint32_t* tokens, size_t count, uint64_t position);

 private:
  // A method, and how many tokens it reads.
  struct Reader {
    std::string method;
    size_t most;
    bool is_exact;
  };

  explicit LanguageModel(Program& program) : program_(&program) {}

  Result<std::vector<int64_t>> constant(const std::string& method) const;
  Result<uint64_t> size(const std::string& method) const;
  Status find_readers(size_t most);
  Status check_form(const std::string& method) const;
  Status read_logits(const std::string& title, const executorch::runtime::EValue& output);

  Program* program_;
  std::vector<Reader> readers_;  // Those that read the most first.
  uint64_t context_ = 0;
  std::vector<int64_t> ends_;
  std::vector<float> logits_;
};

// What a program's KV cache holds of a conversation, and how it goes on.
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
  Result<const std::vector<float>*> read(const std::vector<uint32_t>& tokens);

  // A new conversation: what the cache holds will be written over.
  void clear();

 private:
  LanguageModel& model_;
  uint64_t read_ = 0;
  std::vector<uint32_t> unread_;
};

// Chooses the next token.
class Sampler {
 public:
  // A temperature of 0 takes the most likely token, 1 draws from the model's distribution, more
  // flattens it. The same seed gives the same tokens.
  Sampler(double temperature, uint64_t seed) : temperature_(temperature), state_(seed) {}

  // Of logits that are infinite the first one is taken, whatever the temperature. An error, which begins
  // with `program`, if a logit is not a number, or all are minus infinity.
  Result<uint32_t> choose(const std::vector<float>& logits, const std::string& program);

 private:
  // From 0 to below 1.
  double random();

  double temperature_;
  uint64_t state_;
};

}  // namespace runner

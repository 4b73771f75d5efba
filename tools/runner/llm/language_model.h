// A language model's program: tokens in, logits of the next one out; its KV cache is its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/runner/engine/program.h"

namespace runner {

class LanguageModel {
 public:
  // Ends the process with a sentence if the program is no language model: it has `forward(tokens,
  // input_pos)`, or `prefill` or `prefill_N` and `decode` of that form, and says how long its context
  // is, what ends an answer, and how many tokens a call reads at most.
  explicit LanguageModel(Program& program);

  // Whether it may be one.
  static bool is_one(const Program& program);

  uint64_t context() const { return context_; }
  bool ends_with(uint32_t token) const;

  // How many of so many tokens the next call reads.
  size_t next_count(size_t left) const;

  // Reads that many tokens, the first one at `position`; the logits after the last of them.
  const std::vector<float>& run(const uint32_t* tokens, size_t count, uint64_t position);

 private:
  // A method, and how many tokens it reads.
  struct Reader {
    std::string method;
    size_t most;
    bool is_exact;
  };

  std::vector<int64_t> constant(const std::string& method);
  uint64_t size(const std::string& method);
  void find_readers(size_t most);
  void check_form(const std::string& method) const;
  void read_logits(const std::string& method, const executorch::runtime::EValue& output);

  Program& program_;
  std::vector<Reader> readers_;  // Those that read the most first.
  uint64_t context_ = 0;
  std::vector<int64_t> ends_;
  std::vector<float> logits_;
};

}  // namespace runner

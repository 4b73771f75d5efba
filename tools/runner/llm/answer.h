// An answer of a language model, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/runner/llm/sampler.h"
#include "tools/runner/llm/session.h"
#include "tools/runner/llm/tokenizer.h"

namespace runner {

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

// Answers what is said next in a conversation, which fits into it. `say` gets whole characters as they
// come. Ends the process with a sentence if the program fails.
Answer answer(
    const std::vector<uint32_t>& said,
    const Tokenizer& tokenizer,
    Session& session,
    const std::string& program,
    Sampler& sampler,
    size_t max_new_tokens,
    const std::function<void(std::string_view)>& say);

// One line with the tokens per second.
std::string speed_of(const Answer& answer);

double per_second(size_t count, double milliseconds);

}  // namespace runner

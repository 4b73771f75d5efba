// An answer of a language model, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/runner/llm/language_model.h"
#include "tools/runner/llm/sampler.h"
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

// Answers a prompt in the model's own form. `say` gets whole characters as they come.
//
// Ends the process with a sentence if the prompt is empty, no UTF-8 or too long, or the program fails.
Answer answer(
    const std::string& prompt,
    const Tokenizer& tokenizer,
    LanguageModel& model,
    const std::string& program,
    Sampler& sampler,
    size_t max_new_tokens,
    const std::function<void(std::string_view)>& say);

// One line with the tokens per second.
std::string speed_of(const Answer& answer);

double per_second(size_t count, double milliseconds);

}  // namespace runner

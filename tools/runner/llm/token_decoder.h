// Tokens back to text, as they come.
//
// Each step takes the texts of tokens and gives others, like Hugging Face's, but token by token: what it can't
// know yet, as the next token may change it, it holds back. So the text of an answer costs what its tokens cost,
// and is the same however many tokens come at once.
#pragma once

#include <memory>
#include <string_view>

#include "tools/runner/base/json.h"
#include "tools/runner/llm/matching.h"

namespace runner {

// What takes texts of tokens, in UTF-8: parts of each, its end, and the end of all.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual Status add(std::string_view text) = 0;
  virtual Status end_token() = 0;
  virtual Status finish() = 0;
};

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;

  // This step, with what it knows of one text. It gives what it makes to `next`.
  virtual std::unique_ptr<TokenSink> start(TokenSink& next, Budget& budget) const = 0;
};

// The one that a tokenizer.json has. An error if the runner doesn't have it.
Result<std::unique_ptr<TokenDecoder>> make_token_decoder(const JsonValue& json, Budget& budget);

}  // namespace runner

// Decodes tokens to text, one by one.
//
// Each step transforms the texts of tokens, like Hugging Face's, but token by token: it holds back text that the
// next token may change. So decoding takes time in proportion to the tokens, and the text does not depend on how many
// tokens arrive at once.
#pragma once

#include <memory>
#include <string_view>

#include "tools/runner/base/json.h"
#include "tools/runner/llm/matching.h"

namespace runner {

// Receives texts of tokens, in UTF-8: parts of each, its end, and the end of all.
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

  // This step with its state for one text. It passes its output to `next`.
  virtual std::unique_ptr<TokenSink> start(TokenSink& next, Budget& budget) const = 0;
};

// From a tokenizer.json. An error if the runner does not support it.
Result<std::unique_ptr<TokenDecoder>> make_token_decoder(const JsonValue& json, Budget& budget);

}  // namespace runner

// Tokens back to text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/runner/llm/json_fields.h"

namespace runner {

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;

  // Changes the texts of tokens, or how many there are; together they are the text, as bytes.
  virtual void decode(std::vector<std::string>& tokens) const = 0;
};

// The one that a tokenizer.json has. Ends the process with a sentence if the runner doesn't have it.
std::unique_ptr<TokenDecoder> make_token_decoder(const JsonPart& json);

}  // namespace runner

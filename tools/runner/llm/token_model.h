// The model of a tokenizer: a word to tokens. Byte-pair encoding, WordPiece or Unigram.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/runner/base/json.h"
#include "tools/runner/llm/matching.h"

namespace runner {

class TokenModel {
 public:
  virtual ~TokenModel() = default;

  // Adds the tokens of a word.
  virtual Status encode(const std::string& word, std::vector<uint32_t>& tokens, Budget& budget) const = 0;

  // nullptr: no such token.
  virtual const std::string* token_of(uint32_t id) const = 0;

  // -1: no such token.
  virtual int64_t id_of(std::string_view token) const = 0;

  // Number of tokens.
  virtual size_t size() const = 0;
};

// From the "model" of a tokenizer.json. An error if the runner does not support it.
Result<std::unique_ptr<TokenModel>> make_token_model(const JsonValue& json);

// Cost of one byte of a search in a vocabulary.
constexpr uint64_t kStepsOfSearch = 8;

// "<0x41>" for the byte 0x41: the token of a byte for models with `byte_fallback`.
std::string byte_token(char byte);

}  // namespace runner

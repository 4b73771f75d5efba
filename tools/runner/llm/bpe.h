// Byte-pair encoding: a word to tokens, by learned merges.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/runner/base/json.h"
#include "tools/runner/llm/token_model.h"

namespace runner {

class Bpe final : public TokenModel {
 public:
  // From the "model" of a tokenizer.json. An error if it is invalid.
  static Result<std::unique_ptr<Bpe>> read(const JsonValue& json);

  // Only its tokens, without merges: from a "vocab".
  static Result<std::unique_ptr<Bpe>> read_tokens(const JsonValue& json);

  Status encode(const std::string& word, std::vector<uint32_t>& tokens, Budget& budget) const override;

  // -1: no such token.
  int64_t id_of(std::string_view token) const;

  const std::string* token_of(uint32_t id) const override;

 private:
  struct Merge {
    uint32_t rank;
    uint32_t id;
  };

  Status read_vocabulary(const JsonValue& json);
  Status read_merges(const JsonValue& json);
  std::vector<uint32_t> characters_of(const std::string& word) const;
  std::vector<uint32_t> merged(std::vector<uint32_t> ids) const;

  // Sorted by token.
  std::vector<std::pair<std::string, uint32_t>> ids_;
  std::vector<const std::string*> tokens_;
  // Two tokens, the first one in the upper half.
  std::unordered_map<uint64_t, Merge> merges_;
  int64_t unknown_ = -1;
  bool fuses_unknown_ = false;
  bool has_byte_fallback_ = false;
  bool ignores_merges_ = false;
};

}  // namespace runner

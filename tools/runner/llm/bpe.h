// Byte-pair encoding: a word to tokens, by learned merges.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
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

  const std::string* token_of(uint32_t id) const override;
  int64_t id_of(std::string_view token) const override;
  size_t size() const override { return ids_.size(); }

  // The longest token that is `prefix` and whole characters of a word from `start` on: how many bytes of the word, and
  // the token; 0 bytes: none.
  Result<std::pair<size_t, uint32_t>> longest(
      const std::string& prefix, const std::string& word, size_t start, Budget& budget) const;

 private:
  struct Merge {
    uint32_t left;
    uint32_t right;
    uint32_t rank;
    uint32_t id;
  };

  Status read_vocabulary(const JsonValue& json);
  Status read_merges(const JsonValue& json);
  std::vector<uint32_t> characters_of(const std::string& word) const;
  std::vector<uint32_t> merged(std::vector<uint32_t> ids) const;
  // nullptr: there is none.
  const Merge* merge_of(uint32_t left, uint32_t right) const;

  // Sorted by token.
  std::vector<std::pair<std::string, uint32_t>> ids_;
  std::vector<const std::string*> tokens_;
  // Sorted by left, then right token, each pair once. A hash table would be slow for pairs that were made to collide.
  std::vector<Merge> merges_;
  // By left token, and one more: where its merges begin.
  std::vector<uint32_t> starts_;
  int64_t unknown_ = -1;
  bool fuses_unknown_ = false;
  bool has_byte_fallback_ = false;
  bool ignores_merges_ = false;
};

}  // namespace runner

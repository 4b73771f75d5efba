// Tokens that a tokenizer finds in text before other steps, such as those that mark turns.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/runner/base/result.h"

#include "tools/runner/base/json.h"
#include "tools/runner/llm/matching.h"
#include "tools/runner/llm/normalizer.h"
#include "tools/runner/llm/token_model.h"

namespace runner {

struct AddedToken {
  uint32_t id = 0;
  std::string content;
  std::string searched;        // The content to search for, normalized if the text is.
  bool is_special = false;     // Not part of an answer's text.
  bool is_normalized = false;  // Searched for in normalized text.
  bool strips_left = false;    // Includes the white space beside it.
  bool strips_right = false;
  bool is_word = false;  // Only between word boundaries.
};

// A piece of text, or one of the tokens.
struct Piece {
  std::string text;
  const AddedToken* token = nullptr;
  bool is_start = false;    // Of the whole text.
  std::vector<Range> said;  // User text, where special tokens are text, in order.
};

class AddedTokens {
 public:
  // From a tokenizer.json with this normalizer, nullptr: none, and model. An error if a token's number is not the one
  // that Hugging Face's gives it: that of the model's vocabulary, else the next one.
  static Result<std::unique_ptr<AddedTokens>> read(
      const JsonValue& json,
      const Normalizer* normalizer,
      const TokenModel& model);

  // nullptr: not an added token.
  const AddedToken* find(uint32_t id) const;

  // Tells whether answers omit the token's text.
  bool is_special(const std::string& text) const;

  // Tells whether special tokens are searched for in normalized text.
  bool has_normalized_special() const;

  // Splits the pieces without a token at the tokens in them.
  Result<std::vector<Piece>> cut(
      const std::vector<Piece>& pieces,
      bool is_normalized,
      Budget& budget) const;

 private:
  // Sorted by `searched`.
  using Sorted = std::vector<const AddedToken*>;

  void sort(std::vector<uint32_t> ids);
  // The longest token that begins there; nullptr: none.
  Result<const AddedToken*> token_at(
      std::string_view text,
      size_t at,
      const Sorted& tokens,
      Budget& budget) const;
  Result<bool> is_beside_word(std::string_view text, size_t start, size_t end, Budget& budget) const;
  Status cut_piece(
      const Piece& piece,
      const Sorted& tokens,
      Budget& budget,
      std::vector<Piece>& all) const;

  std::map<uint32_t, AddedToken> tokens_;
  std::set<std::string> special_;
  Sorted in_text_;
  Sorted in_normalized_;
  std::optional<Regex> word_character_;  // None: no token needs it.
};

}  // namespace runner

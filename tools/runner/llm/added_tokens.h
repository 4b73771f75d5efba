// Tokens that a tokenizer finds in text before all else: those that mark turns, for example.
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

namespace runner {

struct AddedToken {
  uint32_t id = 0;
  std::string content;
  std::string wanted;          // What is looked for: the content, normalized if the text is.
  bool is_special = false;     // No part of what a text says.
  bool is_normalized = false;  // Looked for in text as normalized.
  bool strips_left = false;    // Takes the white space beside it.
  bool strips_right = false;
  bool is_word = false;  // Only where no part of a word is beside it.
};

// Bytes of a text, from `start` to before `end`.
struct Range {
  size_t start;
  size_t end;
};

// A piece of text, or one of the tokens.
struct Piece {
  std::string text;
  const AddedToken* token = nullptr;
  bool is_start = false;    // Of the whole text.
  std::vector<Range> said;  // Where special tokens are text, in order.
};

class AddedTokens {
 public:
  // Out of a tokenizer.json, whose normalizer `normalizer`, or nullptr.
  static Result<std::unique_ptr<AddedTokens>> read(
      const JsonValue& json,
      const Normalizer* normalizer,
      Budget& budget);

  // nullptr: it is none of them.
  const AddedToken* find(uint32_t id) const;

  // Whether a token's text is left out of what an answer says.
  bool is_special(const std::string& text) const;

  // Whether special tokens are looked for in text as normalized.
  bool has_normalized_special() const;

  // Cuts the pieces without a token where a token stands that is looked for in such text.
  Result<std::vector<Piece>> cut(
      const std::vector<Piece>& pieces,
      bool is_normalized,
      Budget& budget) const;

 private:
  // Sorted by what is looked for.
  using Sorted = std::vector<const AddedToken*>;

  void sort(std::vector<uint32_t> ids);
  // The longest one that begins there; nullptr: there is none.
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
  std::optional<Regex> word_character_;  // None: no token has to know it.
};

}  // namespace runner

// Tokens that a tokenizer finds in text before all else: those that mark turns, for example.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/runner/llm/json_fields.h"
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
};

// A piece of text, or one of the tokens.
struct Piece {
  std::string text;
  const AddedToken* token = nullptr;
  bool is_start = false;  // Of the whole text.
};

class AddedTokens {
 public:
  // Out of the "added_tokens" of a tokenizer.json; `normalizer` is that of the file, or nullptr.
  AddedTokens(const JsonPart& json, const Normalizer* normalizer);

  // nullptr: it is none of them.
  const AddedToken* find(uint32_t id) const;

  // Cuts the pieces without a token where a token stands that is looked for in such text.
  std::vector<Piece> cut(const std::vector<Piece>& pieces, bool is_normalized) const;

 private:
  const AddedToken* token_at(std::string_view text, size_t at, bool is_normalized) const;
  void cut_piece(const Piece& piece, bool is_normalized, std::vector<Piece>& all) const;

  std::map<uint32_t, AddedToken> tokens_;
  // The longest first, by their first byte.
  std::vector<const AddedToken*> by_first_[256];
};

}  // namespace runner

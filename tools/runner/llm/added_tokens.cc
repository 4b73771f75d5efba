#include "tools/runner/llm/added_tokens.h"

#include <algorithm>

#include "tools/runner/llm/utf8.h"

namespace runner {
namespace {

AddedToken read_token(const JsonPart& json, const Normalizer* normalizer) {
  AddedToken token;
  const JsonPart id = json.at("id");
  if (!id.value().is_number_unsigned() || id.value().get<uint64_t>() > UINT32_MAX) {
    id.fail_with("is no number of a token");
  }
  token.id = id.value().get<uint32_t>();
  token.content = json.text("content");
  token.is_special = json.flag("special", false);
  token.is_normalized = json.flag("normalized", false);
  token.wanted = token.is_normalized && normalizer != nullptr ? normalizer->normalize(token.content)
                                                              : token.content;
  token.strips_left = json.flag("lstrip", false);
  token.strips_right = json.flag("rstrip", false);
  if (json.flag("single_word", false)) {
    json.fail_with("is only a token as a word of its own (single_word), which the runner doesn't know");
  }
  return token;
}

bool is_space(uint32_t point) {
  return point == ' ' || (point >= '\t' && point <= '\r') || point == 0x85 || point == 0xA0 ||
      point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
      point == 0x202F || point == 0x205F || point == 0x3000;
}

// Where the white space begins that ends at `end`.
size_t space_before(std::string_view text, size_t start, size_t end) {
  while (end > start) {
    size_t at = end - 1;
    while (at > start && character_size(text, at) == 0) {
      --at;
    }
    if (!is_space(code_point(text.substr(at, end - at)))) {
      break;
    }
    end = at;
  }
  return end;
}

size_t space_after(std::string_view text, size_t at) {
  while (at < text.size()) {
    const size_t size = character_size(text, at);
    if (!is_space(code_point(text.substr(at, size)))) {
      break;
    }
    at += size;
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(const JsonPart& json, const Normalizer* normalizer) {
  for (const JsonPart& item : json.items()) {
    const AddedToken token = read_token(item, normalizer);
    tokens_[token.id] = token;
  }
  for (const auto& [id, token] : tokens_) {
    if (!token.wanted.empty()) {
      by_first_[static_cast<uint8_t>(token.wanted[0])].push_back(&token);
    }
  }
  for (auto& tokens : by_first_) {
    std::stable_sort(tokens.begin(), tokens.end(), [](const auto* one, const auto* two) {
      return one->wanted.size() > two->wanted.size();
    });
  }
}

const AddedToken* AddedTokens::find(uint32_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

const AddedToken* AddedTokens::token_at(
    std::string_view text,
    size_t at,
    bool is_normalized) const {
  for (const AddedToken* token : by_first_[static_cast<uint8_t>(text[at])]) {
    if (token->is_normalized == is_normalized &&
        text.compare(at, token->wanted.size(), token->wanted) == 0) {
      return token;
    }
  }
  return nullptr;
}

void AddedTokens::cut_piece(
    const Piece& piece,
    bool is_normalized,
    std::vector<Piece>& all) const {
  const std::string_view text = piece.text;
  size_t start = 0;
  const auto add = [&](size_t end) {
    if (start < end) {
      all.push_back({std::string(text.substr(start, end - start)), nullptr,
                     piece.is_start && start == 0});
    }
  };
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token = token_at(text, at, is_normalized);
    if (token == nullptr) {
      ++at;
      continue;
    }
    const size_t end = token->strips_left ? space_before(text, start, at) : at;
    add(end);
    all.push_back({token->content, token, piece.is_start && end == 0});
    at += token->wanted.size();
    at = token->strips_right ? space_after(text, at) : at;
    start = at;
  }
  add(text.size());
}

std::vector<Piece> AddedTokens::cut(const std::vector<Piece>& pieces, bool is_normalized) const {
  std::vector<Piece> all;
  for (const Piece& piece : pieces) {
    if (piece.token != nullptr) {
      all.push_back(piece);
    } else {
      cut_piece(piece, is_normalized, all);
    }
  }
  return all;
}

}  // namespace runner

#include "tools/runner/llm/added_tokens.h"

#include <algorithm>

#include "tools/runner/base/text.h"

namespace runner {
namespace {

// \w of Rust's crate regex, which Hugging Face's tokenizers use for these.
constexpr char kWordCharacter[] = R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}])";

Result<AddedToken> read_token(const JsonValue& json, const Normalizer* normalizer, Budget& budget) {
  AddedToken token;
  token.id = static_cast<uint32_t>(TRY(json.number("id", UINT32_MAX)));
  token.content = TRY(json.text("content"));
  token.is_special = TRY(json.flag("special", false));
  token.is_normalized = TRY(json.flag("normalized", false));
  SourcedText searched = {token.content, {}};
  if (token.is_normalized && normalizer != nullptr) {
    TRY(normalizer->normalize(searched, budget));
  }
  token.searched = std::move(searched.text);
  token.strips_left = TRY(json.flag("lstrip", false));
  token.strips_right = TRY(json.flag("rstrip", false));
  token.is_word = TRY(json.flag("single_word", false));
  return token;
}

// The start of the white space that ends at `end`.
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

// The end of the user text in a match; `start`: none of it is user text.
size_t said_until(const std::vector<Range>& said, size_t start, size_t end) {
  // The last range that begins before the end: ranges are in order, and apart.
  const auto after = std::partition_point(
      said.begin(), said.end(), [end](const Range& range) { return range.start < end; });
  return after != said.begin() && start < (after - 1)->end ? std::min(end, (after - 1)->end) : start;
}

std::vector<Range> said_within(const std::vector<Range>& said, size_t start, size_t end) {
  std::vector<Range> within;
  for (auto range = std::partition_point(
           said.begin(), said.end(), [start](const Range& entry) { return entry.end <= start; });
       range != said.end() && range->start < end;
       ++range) {
    within.push_back({std::max(range->start, start) - start, std::min(range->end, end) - start});
  }
  return within;
}

}  // namespace

Result<std::unique_ptr<AddedTokens>> AddedTokens::read(
    const JsonValue& json,
    const Normalizer* normalizer,
    const TokenModel& model) {
  auto added = std::make_unique<AddedTokens>();
  std::vector<uint32_t> ids;
  if (!json.has("added_tokens")) {
    return added;
  }
  std::set<std::string> contents;
  uint64_t next = model.size();
  for (const JsonValue& item : TRY(json.items("added_tokens"))) {
    AddedToken token = TRY(read_token(item, normalizer, json.budget()));
    TRY(json.budget().spend(token.searched.size()));
    if (token.content.empty()) {
      continue;  // As in Hugging Face's.
    }
    if (!contents.insert(token.content).second) {
      return item.error_with("has the content \"" + shortened(token.content) + "\", which another one has, too");
    }
    const int64_t known = model.id_of(token.content);
    const uint64_t expected = known >= 0 ? static_cast<uint64_t>(known) : next;
    if (token.id != expected) {
      return item.error_with(
          "(\"" + shortened(token.content) + "\") has the id " + std::to_string(token.id) + ", expected " +
          std::to_string(expected) + (known >= 0 ? ", as in the model's vocabulary" : ", the next one") +
          ". Hugging Face's tokenizers ignore the number in the file; write it with the number that they use");
    }
    next = std::max(next, expected + 1);
    ids.push_back(token.id);
    if (token.is_special) {
      added->special_.insert(token.content);
    }
    if (token.is_word && !added->word_character_) {
      added->word_character_.emplace(TRY(Regex::compile(kWordCharacter, item)));
    }
    added->tokens_[token.id] = std::move(token);
  }
  added->sort(std::move(ids));
  return added;
}

void AddedTokens::sort(std::vector<uint32_t> ids) {
  // Among tokens with the same text, the first special one, otherwise the first.
  std::stable_partition(
      ids.begin(), ids.end(), [&](uint32_t id) { return tokens_[id].is_special; });
  for (const uint32_t id : ids) {
    const AddedToken& token = tokens_[id];
    if (!token.searched.empty()) {
      (token.is_normalized ? in_normalized_ : in_text_).push_back(&token);
    }
  }
  for (Sorted* tokens : {&in_text_, &in_normalized_}) {
    std::stable_sort(tokens->begin(), tokens->end(), [](const auto* left, const auto* right) {
      return left->searched < right->searched;
    });
    const auto end = std::unique(tokens->begin(), tokens->end(), [](const auto* left, const auto* right) {
      return left->searched == right->searched;
    });
    tokens->erase(end, tokens->end());
  }
}

const AddedToken* AddedTokens::find(uint32_t id) const {
  const auto entry = tokens_.find(id);
  return entry == tokens_.end() ? nullptr : &entry->second;
}

bool AddedTokens::has_normalized_special() const {
  return std::any_of(in_normalized_.begin(), in_normalized_.end(), [](const AddedToken* token) {
    return token->is_special;
  });
}

bool AddedTokens::is_special(const std::string& text) const {
  return special_.count(text) > 0;
}

Result<const AddedToken*> AddedTokens::token_at(
    std::string_view text,
    size_t at,
    const Sorted& tokens,
    Budget& budget) const {
  const auto text_of = [](const AddedToken* token) -> const std::string& { return token->searched; };
  Prefixes candidates(tokens.begin(), tokens.end(), text_of);
  const AddedToken* longest = nullptr;
  size_t size = 0;
  while (at + size < text.size() && candidates.add(text[at + size])) {
    ++size;
    if (const auto token = candidates.whole()) {
      longest = **token;
    }
  }
  if (size > 0) {
    TRY(budget.spend(size));
  }
  return longest;
}

Result<bool> AddedTokens::is_beside_word(
    std::string_view text,
    size_t start,
    size_t end,
    Budget& budget) const {
  size_t before = start;
  while (before > 0 && (before == start || character_size(text, before) == 0)) {
    --before;
  }
  const size_t after = end < text.size() ? character_size(text, end) : 0;
  const auto matches_before = TRY(word_character_->matches(text.substr(before, start - before), budget));
  const auto matches_after = TRY(word_character_->matches(text.substr(end, after), budget));
  return !matches_before.empty() || !matches_after.empty();
}

Status AddedTokens::cut_piece(
    const Piece& piece,
    const Sorted& tokens,
    Budget& budget,
    std::vector<Piece>& all) const {
  const std::string_view text = piece.text;
  // The start of the text that is in no piece yet.
  size_t start = 0;
  const auto add = [&](size_t end) {
    if (start < end) {
      all.push_back({std::string(text.substr(start, end - start)), nullptr,
                     piece.is_start && start == 0, said_within(piece.said, start, end)});
    }
  };
  TRY(budget.spend(text.size()));
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token = TRY(token_at(text, at, tokens, budget));
    if (token == nullptr) {
      ++at;
      continue;
    }
    const size_t said =
        token->is_special ? said_until(piece.said, at, at + token->searched.size()) : at;
    if (said > at) {
      at = said;
      continue;
    }
    const size_t begin = at;
    at += token->searched.size();
    if (token->is_word && TRY(is_beside_word(text, begin, at, budget))) {
      continue;
    }
    // As in Hugging Face's: includes a token in the white space of the previous token, unless nothing remains of it.
    const size_t left =
        token->strips_left ? std::max(start, space_before(text, start, begin)) : begin;
    const size_t right = token->strips_right ? space_after(text, at) : at;
    add(left);
    if (left < right) {
      all.push_back({token->content, token, false, {}});
    }
    start = right;
    TRY(budget.spend(right - at));
  }
  add(text.size());
  return {};
}

Result<std::vector<Piece>> AddedTokens::cut(
    const std::vector<Piece>& pieces,
    bool is_normalized,
    Budget& budget) const {
  std::vector<Piece> all;
  for (const Piece& piece : pieces) {
    if (piece.token != nullptr) {
      all.push_back(piece);
    } else {
      TRY(cut_piece(piece, is_normalized ? in_normalized_ : in_text_, budget, all));
    }
  }
  return all;
}

}  // namespace runner

#include "tools/runner/llm/token_model.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "tools/runner/base/text.h"
#include "tools/runner/llm/bpe.h"

namespace runner {
namespace {

// Cost of an unknown character above that of the least likely token, as in Hugging Face's.
constexpr double kUnknownPenalty = 10;

// The longest tokens that fit, from left to right; a word that has no such tokens is one unknown token.
class WordPiece final : public TokenModel {
 public:
  static Result<std::unique_ptr<TokenModel>> read(const JsonValue& json) {
    auto model = std::make_unique<WordPiece>();
    model->vocabulary_ = TRY(Bpe::read_tokens(TRY(json.at("vocab"))));
    const std::string unknown = TRY(json.text("unk_token", "[UNK]"));
    const int64_t id = model->vocabulary_->id_of(unknown);
    if (id < 0) {
      return json.error_with("has the unk_token \"" + unknown + "\", which is not in its vocabulary");
    }
    model->unknown_ = static_cast<uint32_t>(id);
    model->prefix_ = TRY(json.text("continuing_subword_prefix", "##"));
    model->most_characters_ = json.has("max_input_chars_per_word")
        ? TRY(json.number("max_input_chars_per_word", UINT32_MAX))
        : 100;
    return model;
  }

  Status encode(const std::string& word, std::vector<uint32_t>& tokens, Budget& budget) const override {
    const auto characters = static_cast<uint64_t>(std::count_if(
        word.begin(), word.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
    const size_t before = tokens.size();
    for (size_t start = 0; characters <= most_characters_ && start < word.size();) {
      const auto [size, id] = TRY(vocabulary_->longest(start > 0 ? prefix_ : "", word, start, budget));
      if (size == 0) {
        tokens.resize(before);
        break;
      }
      tokens.push_back(id);
      start += size;
    }
    if (tokens.size() == before && !word.empty()) {
      tokens.push_back(unknown_);
    }
    return {};
  }

  const std::string* token_of(uint32_t id) const override { return vocabulary_->token_of(id); }
  int64_t id_of(std::string_view token) const override { return vocabulary_->id_of(token); }
  size_t size() const override { return vocabulary_->size(); }

 private:
  std::unique_ptr<Bpe> vocabulary_;
  uint32_t unknown_ = 0;
  std::string prefix_;
  uint64_t most_characters_ = 0;
};

// The tokens with the highest sum of scores, by Viterbi's algorithm.
class Unigram final : public TokenModel {
 public:
  static Result<std::unique_ptr<TokenModel>> read(const JsonValue& json) {
    auto model = std::make_unique<Unigram>();
    TRY(model->read_vocabulary(json));
    if (json.has("unk_id")) {
      model->unknown_ = static_cast<int64_t>(TRY(json.number("unk_id", UINT32_MAX)));
      if (model->unknown_ >= static_cast<int64_t>(model->tokens_.size())) {
        return json.error_with("has the unk_id " + std::to_string(model->unknown_) + ", which is not in its vocabulary");
      }
    }
    model->has_byte_fallback_ = TRY(json.flag("byte_fallback", false));
    return model;
  }

  Status encode(const std::string& word, std::vector<uint32_t>& tokens, Budget& budget) const override {
    const std::vector<Node> best = TRY(best_paths(word, budget));
    std::vector<Range> path;
    for (size_t end = word.size(); end > 0; end = best[end].start) {
      // Unknown characters beside each other are one unknown token.
      if (!path.empty() && best[end].is_unknown && path.back().is_unknown) {
        path.back().start = best[end].start;
      } else {
        path.push_back({best[end].start, end, best[end].is_unknown});
      }
    }
    for (auto range = path.rbegin(); range != path.rend(); ++range) {
      TRY(add(word.substr(range->start, range->end - range->start), tokens, budget));
    }
    return {};
  }

  const std::string* token_of(uint32_t id) const override {
    return id < tokens_.size() ? &tokens_[id].first : nullptr;
  }

  // The last of equal ones, as in Hugging Face's.
  int64_t id_of(std::string_view token) const override {
    const auto after = std::upper_bound(
        sorted_.begin(), sorted_.end(), token, [this](std::string_view text, uint32_t id) {
          return text < tokens_[id].first;
        });
    return after != sorted_.begin() && tokens_[*(after - 1)].first == token ? int64_t{*(after - 1)} : -1;
  }

  size_t size() const override { return tokens_.size(); }

 private:
  // The best tokens up to a byte of the word: the last one of them begins at `start`.
  struct Node {
    double score = 0;
    size_t start = 0;
    bool is_reached = false;
    bool is_unknown = false;
  };

  struct Range {
    size_t start;
    size_t end;
    bool is_unknown;
  };

  Status read_vocabulary(const JsonValue& json) {
    const auto entries = TRY(json.items("vocab"));
    lowest_ = std::numeric_limits<double>::infinity();
    for (const auto& entry : entries.whole().value()) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
        return entries.whole().error_with(
            "has number " + std::to_string(tokens_.size()) + ", which is not a token and its score");
      }
      tokens_.emplace_back(entry[0].get<std::string>(), entry[1].get<double>());
      lowest_ = std::min(lowest_, tokens_.back().second);
    }
    for (uint32_t id = 0; id < tokens_.size(); ++id) {
      sorted_.push_back(id);
    }
    std::stable_sort(sorted_.begin(), sorted_.end(), [this](uint32_t left, uint32_t right) {
      return tokens_[left].first < tokens_[right].first;
    });
    return {};
  }

  static void improve(Node& node, double score, size_t start, bool is_unknown) {
    if (!node.is_reached || score > node.score) {
      node = {score, start, true, is_unknown};
    }
  }

  Result<std::vector<Node>> best_paths(const std::string& word, Budget& budget) const {
    std::vector<Node> best(word.size() + 1);
    for (size_t start = 0; start < word.size();) {
      const size_t character = std::max<size_t>(character_size(word, start), 1);
      const bool has_character = TRY(try_tokens(word, start, character, best, budget));
      if (!has_character) {
        improve(best[start + character], best[start].score + (lowest_ - kUnknownPenalty), start, true);
      }
      start += character;
    }
    return best;
  }

  // Tells whether one of the tokens that begin there is one character.
  Result<bool> try_tokens(
      const std::string& word, size_t start, size_t character, std::vector<Node>& best, Budget& budget) const {
    const auto text_of = [this](uint32_t id) -> const std::string& { return tokens_[id].first; };
    Prefixes tokens(sorted_.begin(), sorted_.end(), text_of);
    bool has_character = false;
    size_t size = 0;
    while (start + size < word.size() && tokens.add(word[start + size])) {
      ++size;
      if (const auto token = tokens.whole()) {
        const double score = tokens_[**token].second;
        improve(best[start + size], best[start].score + score, start, **token == unknown_);
        has_character = has_character || size == character;
      }
    }
    TRY(budget.spend(size * kStepsOfSearch));
    return has_character;
  }

  Status add(const std::string& piece, std::vector<uint32_t>& tokens, Budget& budget) const {
    TRY(budget.spend(piece.size()));
    const int64_t id = id_of(piece);
    if (id >= 0) {
      tokens.push_back(static_cast<uint32_t>(id));
      return {};
    }
    std::vector<uint32_t> bytes;
    for (const char byte : piece) {
      const int64_t of_byte = has_byte_fallback_ ? id_of(byte_token(byte)) : -1;
      if (of_byte < 0) {
        break;
      }
      bytes.push_back(static_cast<uint32_t>(of_byte));
    }
    if (bytes.size() == piece.size()) {
      tokens.insert(tokens.end(), bytes.begin(), bytes.end());
    } else if (unknown_ >= 0) {
      tokens.push_back(static_cast<uint32_t>(unknown_));
    } else {
      return budget.error_with("the text has a character that no token has, and there is no unk_id");
    }
    return {};
  }

  std::vector<std::pair<std::string, double>> tokens_;
  std::vector<uint32_t> sorted_;  // By token.
  double lowest_ = 0;
  int64_t unknown_ = -1;
  bool has_byte_fallback_ = false;
};

}  // namespace

std::string byte_token(char byte) {
  const auto value = static_cast<uint8_t>(byte);
  const char* digits = "0123456789ABCDEF";
  return {'<', '0', 'x', digits[value >> 4], digits[value & 15], '>'};
}

Result<std::unique_ptr<TokenModel>> make_token_model(const JsonValue& json) {
  const std::string type = TRY(json.text("type", "BPE"));
  if (type == "BPE") {
    return TRY(Bpe::read(json));
  }
  if (type == "WordPiece") {
    return WordPiece::read(json);
  }
  if (type == "Unigram") {
    return Unigram::read(json);
  }
  return json.error_with("is of type \"" + type + "\", which the runner does not support");
}

}  // namespace runner

#include "tools/runner/llm/bpe.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "tools/runner/base/text.h"

namespace runner {
namespace {

using nlohmann::json;

// More tokens than any vocabulary has; a damaged file may contain any number. Vocabularies have few gaps.
constexpr uint64_t kMaxTokens = 1 << 24;
constexpr uint64_t kMaxGaps = 1 << 16;

}  // namespace

Result<std::unique_ptr<Bpe>> Bpe::read(const JsonValue& json) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!TRY(json.text(key, "")).empty()) {
      return json.error_with("has a \"" + std::string(key) + "\", which the runner does not support");
    }
  }
  if (json.has("dropout") && json.value()["dropout"] != 0) {
    return json.error_with("has a \"dropout\", which is for training; remove it");
  }
  auto bpe = std::make_unique<Bpe>();
  TRY(bpe->read_vocabulary(TRY(json.at("vocab"))));
  TRY(bpe->read_merges(json));
  const std::string unknown = TRY(json.text("unk_token", ""));
  bpe->unknown_ = unknown.empty() ? -1 : bpe->id_of(unknown);
  if (!unknown.empty() && bpe->unknown_ < 0) {
    return json.error_with("has the unk_token \"" + unknown + "\", which is not in its vocabulary");
  }
  bpe->fuses_unknown_ = TRY(json.flag("fuse_unk", false));
  bpe->has_byte_fallback_ = TRY(json.flag("byte_fallback", false));
  bpe->ignores_merges_ = TRY(json.flag("ignore_merges", false));
  return bpe;
}

Result<std::unique_ptr<Bpe>> Bpe::read_tokens(const JsonValue& json) {
  auto bpe = std::make_unique<Bpe>();
  TRY(bpe->read_vocabulary(json));
  return bpe;
}

Status Bpe::read_vocabulary(const JsonValue& json) {
  uint64_t count = 0;
  for (auto entry = json.value().begin(); entry != json.value().end(); ++entry) {
    if (!entry->is_number_unsigned() || entry->get<uint64_t>() >= kMaxTokens) {
      return json.error_with("has a number for \"" + entry.key() + "\" that no token has");
    }
    ids_.emplace_back(entry.key(), entry->get<uint32_t>());
    count = std::max<uint64_t>(count, ids_.back().second + uint64_t{1});
  }
  if (count > ids_.size() + kMaxGaps) {
    return json.error_with("has " + std::to_string(ids_.size()) + " tokens and numbers up to " +
                   std::to_string(count - 1));
  }
  std::sort(ids_.begin(), ids_.end());
  tokens_.resize(count);
  for (const auto& [token, id] : ids_) {
    tokens_[id] = &token;
  }
  return {};
}

Status Bpe::read_merges(const JsonValue& json) {
  const auto merges = TRY(json.items("merges"));
  uint32_t rank = 0;
  for (const auto& merge : merges.whole().value()) {
    std::string left, right;
    if (merge.is_string()) {
      const auto text = merge.get<std::string>();
      const size_t space = text.find(' ');
      left = text.substr(0, space);
      right = space == std::string::npos ? "" : text.substr(space + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    }
    const int64_t left_id = id_of(left), right_id = id_of(right), both = id_of(left + right);
    if (left_id < 0 || right_id < 0 || both < 0) {
      return merges.whole().error_with("has number " + std::to_string(rank) + " (\"" + left + "\" and \"" + right +
                     "\"), which are not two tokens that merge into a third");
    }
    merges_.push_back({static_cast<uint32_t>(left_id), static_cast<uint32_t>(right_id), rank++, static_cast<uint32_t>(both)});
  }
  // Of equal pairs, the last one counts.
  const auto key = [](const Merge& merge) { return std::make_pair(merge.left, merge.right); };
  std::sort(merges_.begin(), merges_.end(), [&](const Merge& first, const Merge& second) {
    return std::make_pair(key(first), second.rank) < std::make_pair(key(second), first.rank);
  });
  merges_.erase(std::unique(merges_.begin(), merges_.end(), [&](const Merge& first, const Merge& second) {
    return key(first) == key(second);
  }), merges_.end());
  starts_.resize(tokens_.size() + 1);
  for (const Merge& merge : merges_) {
    ++starts_[merge.left + 1];
  }
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  return {};
}

int64_t Bpe::id_of(std::string_view token) const {
  const auto position = std::lower_bound(
      ids_.begin(), ids_.end(), token, [](const auto& entry, std::string_view key) {
        return entry.first < key;
      });
  return position != ids_.end() && position->first == token ? int64_t{position->second} : -1;
}

Result<std::pair<size_t, uint32_t>> Bpe::longest(
    const std::string& prefix, const std::string& word, size_t start, Budget& budget) const {
  const auto text_of = [](const auto& entry) -> const std::string& { return entry.first; };
  Prefixes tokens(ids_.begin(), ids_.end(), text_of);
  std::pair<size_t, uint32_t> best = {0, 0};
  bool has_any = std::all_of(prefix.begin(), prefix.end(), [&](char byte) { return tokens.add(byte); });
  size_t size = 0;
  while (has_any && start + size < word.size() && tokens.add(word[start + size])) {
    ++size;
    const bool is_whole = start + size == word.size() || character_size(word, start + size) > 0;
    if (const auto token = is_whole ? tokens.whole() : std::nullopt) {
      best = {size, (*token)->second};
    }
  }
  TRY(budget.spend((prefix.size() + size) * kStepsOfSearch));
  return best;
}

const Bpe::Merge* Bpe::merge_of(uint32_t left, uint32_t right) const {
  const auto first = merges_.begin() + starts_[left], last = merges_.begin() + starts_[left + 1];
  const auto merge = std::lower_bound(
      first, last, right, [](const Merge& entry, uint32_t value) { return entry.right < value; });
  return merge != last && merge->right == right ? &*merge : nullptr;
}

const std::string* Bpe::token_of(uint32_t id) const {
  return id < tokens_.size() ? tokens_[id] : nullptr;
}

Status Bpe::encode(const std::string& word, std::vector<uint32_t>& tokens, Budget&) const {
  const int64_t whole = ignores_merges_ ? id_of(word) : -1;
  if (whole >= 0) {
    tokens.push_back(static_cast<uint32_t>(whole));
    return {};
  }
  const std::vector<uint32_t> ids = merged(characters_of(word));
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  return {};
}

std::vector<uint32_t> Bpe::characters_of(const std::string& word) const {
  std::vector<uint32_t> ids;
  // As in Hugging Face's: the token for an unknown character is added before the next known one, after bytes.
  // Without such a token, the character is omitted.
  bool waits = false;
  const auto add_unknown = [&] {
    if (waits) {
      ids.push_back(static_cast<uint32_t>(unknown_));
    }
    waits = false;
  };
  for (size_t i = 0; i < word.size();) {
    const size_t size = std::max<size_t>(character_size(word, i), 1);
    const std::string character = word.substr(i, size);
    i += size;
    const int64_t id = id_of(character);
    if (id >= 0) {
      add_unknown();
      ids.push_back(static_cast<uint32_t>(id));
      continue;
    }
    std::vector<uint32_t> bytes;
    for (const char byte : character) {
      const int64_t of_byte = has_byte_fallback_ ? id_of(byte_token(byte)) : -1;
      if (of_byte >= 0) {
        bytes.push_back(static_cast<uint32_t>(of_byte));
      }
    }
    if (bytes.size() == character.size()) {
      ids.insert(ids.end(), bytes.begin(), bytes.end());
    } else if (unknown_ >= 0) {
      if (!fuses_unknown_) {
        add_unknown();
      }
      waits = true;
    }
  }
  add_unknown();
  return ids;
}

std::vector<uint32_t> Bpe::merged(std::vector<uint32_t> ids) const {
  // The next and the previous remaining symbol; `gone` marks those that were merged into another.
  const size_t count = ids.size();
  std::vector<size_t> next(count), previous(count);
  std::vector<bool> gone(count);
  struct Candidate {
    uint32_t rank;
    size_t at;
    uint32_t id;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto find = [&](size_t at) {
    return next[at] < count ? merge_of(ids[at], ids[next[at]]) : nullptr;
  };
  const auto consider = [&](size_t at) {
    const Merge* merge = find(at);
    if (merge != nullptr) {
      queue.push({merge->rank, at, merge->id});
    }
  };
  for (size_t i = 0; i < count; ++i) {
    next[i] = i + 1;
    previous[i] = i == 0 ? count : i - 1;
  }
  for (size_t i = 0; i < count; ++i) {
    consider(i);
  }
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const Merge* merge = gone[best.at] ? nullptr : find(best.at);
    // The symbol may have been merged meanwhile.
    if (merge == nullptr || merge->id != best.id) {
      continue;
    }
    const size_t right = next[best.at];
    ids[best.at] = best.id;
    gone[right] = true;
    next[best.at] = next[right];
    if (next[right] < count) {
      previous[next[right]] = best.at;
    }
    consider(best.at);
    if (previous[best.at] < count) {
      consider(previous[best.at]);
    }
  }
  std::vector<uint32_t> result;
  for (size_t i = 0; i < count; ++i) {
    if (!gone[i]) {
      result.push_back(ids[i]);
    }
  }
  return result;
}

}  // namespace runner

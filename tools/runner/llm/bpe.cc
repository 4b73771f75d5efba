#include "tools/runner/llm/bpe.h"

#include <algorithm>
#include <queue>

#include "tools/runner/base/fail.h"
#include "tools/runner/llm/utf8.h"

namespace runner {
namespace {

using nlohmann::json;

// More tokens than any vocabulary has; a damaged file may name any number. Vocabularies have few gaps.
constexpr uint64_t kMostTokens = 1 << 24;
constexpr uint64_t kMostGaps = 1 << 16;

uint64_t pair_of(uint32_t left, uint32_t right) {
  return uint64_t{left} << 32 | right;
}

std::string byte_token(char byte) {
  const auto value = static_cast<uint8_t>(byte);
  const char* digits = "0123456789ABCDEF";
  return {'<', '0', 'x', digits[value >> 4], digits[value & 15], '>'};
}

}  // namespace

Bpe::Bpe(const JsonPart& json) : where_(json.where()) {
  const std::string type = json.text("type", "BPE");
  if (type != "BPE") {
    json.fail_with("is of type \"" + type + "\", and the runner has only BPE");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!json.text(key, "").empty()) {
      json.fail_with("has a \"" + std::string(key) + "\", which the runner doesn't know");
    }
  }
  if (json.has("dropout") && json.at("dropout").value() != 0) {
    json.fail_with("has a \"dropout\", which is for training; remove it");
  }
  read_vocabulary(json.at("vocab"));
  read_merges(json.at("merges"));
  const std::string unknown = json.text("unk_token", "");
  unknown_ = unknown.empty() ? -1 : id_of(unknown);
  fuses_unknown_ = json.flag("fuse_unk", false);
  has_byte_fallback_ = json.flag("byte_fallback", false);
  ignores_merges_ = json.flag("ignore_merges", false);
}

void Bpe::read_vocabulary(const JsonPart& json) {
  if (!json.value().is_object()) {
    json.fail_with("is no object");
  }
  uint64_t count = 0;
  for (auto entry = json.value().begin(); entry != json.value().end(); ++entry) {
    if (!entry->is_number_unsigned() || entry->get<uint64_t>() >= kMostTokens) {
      json.fail_with("has a number for \"" + entry.key() + "\" that no token has");
    }
    ids_.emplace_back(entry.key(), entry->get<uint32_t>());
    count = std::max<uint64_t>(count, ids_.back().second + uint64_t{1});
  }
  if (count > ids_.size() + kMostGaps) {
    json.fail_with("has " + std::to_string(ids_.size()) + " tokens and numbers up to " +
                   std::to_string(count - 1));
  }
  std::sort(ids_.begin(), ids_.end());
  tokens_.resize(count);
  for (const auto& [token, id] : ids_) {
    tokens_[id] = &token;
  }
}

void Bpe::read_merges(const JsonPart& json) {
  uint32_t rank = 0;
  for (const auto& merge : json.value()) {
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
    const int64_t one = id_of(left), two = id_of(right), both = id_of(left + right);
    if (one < 0 || two < 0 || both < 0) {
      json.fail_with("has number " + std::to_string(rank) + " (\"" + left + "\" and \"" + right +
                     "\"), which are no two tokens that make a third");
    }
    merges_[pair_of(static_cast<uint32_t>(one), static_cast<uint32_t>(two))] = {
        rank++, static_cast<uint32_t>(both)};
  }
}

int64_t Bpe::id_of(std::string_view token) const {
  const auto found = std::lower_bound(
      ids_.begin(), ids_.end(), token, [](const auto& entry, std::string_view wanted) {
        return entry.first < wanted;
      });
  return found != ids_.end() && found->first == token ? int64_t{found->second} : -1;
}

const std::string* Bpe::token_of(uint32_t id) const {
  return id < tokens_.size() ? tokens_[id] : nullptr;
}

void Bpe::encode(const std::string& word, std::vector<uint32_t>& tokens) const {
  const int64_t whole = ignores_merges_ ? id_of(word) : -1;
  if (whole >= 0) {
    tokens.push_back(static_cast<uint32_t>(whole));
    return;
  }
  const std::vector<uint32_t> ids = merged(characters_of(word));
  tokens.insert(tokens.end(), ids.begin(), ids.end());
}

std::vector<uint32_t> Bpe::characters_of(const std::string& word) const {
  std::vector<uint32_t> ids;
  bool after_unknown = false;
  for (size_t i = 0; i < word.size();) {
    const size_t size = character_size(word, i);
    const std::string one = word.substr(i, size);
    i += size;
    const int64_t id = id_of(one);
    if (id >= 0) {
      ids.push_back(static_cast<uint32_t>(id));
      after_unknown = false;
      continue;
    }
    std::vector<uint32_t> bytes;
    for (const char byte : one) {
      const int64_t of_byte = has_byte_fallback_ ? id_of(byte_token(byte)) : -1;
      if (of_byte >= 0) {
        bytes.push_back(static_cast<uint32_t>(of_byte));
      }
    }
    if (bytes.size() == one.size()) {
      ids.insert(ids.end(), bytes.begin(), bytes.end());
      after_unknown = false;
      continue;
    }
    if (unknown_ < 0) {
      fail(where_ + " has no token for \"" + one + "\".");
    }
    if (!after_unknown || !fuses_unknown_) {
      ids.push_back(static_cast<uint32_t>(unknown_));
    }
    after_unknown = true;
  }
  return ids;
}

std::vector<uint32_t> Bpe::merged(std::vector<uint32_t> ids) const {
  // The next and the previous one that is left; `gone` marks those that were merged into another.
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
    return next[at] < count ? merges_.find(pair_of(ids[at], ids[next[at]])) : merges_.end();
  };
  const auto consider = [&](size_t at) {
    const auto merge = find(at);
    if (merge != merges_.end()) {
      queue.push({merge->second.rank, at, merge->second.id});
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
    const auto merge = gone[best.at] ? merges_.end() : find(best.at);
    // What stood there may have been merged meanwhile.
    if (merge == merges_.end() || merge->second.id != best.id) {
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

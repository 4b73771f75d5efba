#include "tools/runner/llm/precompiled.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/runner/base/text.h"

namespace runner {
namespace {

// Longer clusters are replaced character by character, as in Hugging Face's.
constexpr size_t kMaxClusterBytes = 5;

// An entry of a double array, which is a trie: a step by a byte goes from a position to the position xor the byte.
// The bits are those of the library Darts-clone, with which sentencepiece writes the table.
class Unit {
 public:
  explicit Unit(uint32_t bits) : bits_(bits) {}

  bool has_leaf() const { return (bits_ >> 8 & 1) != 0; }
  uint32_t value() const { return bits_ & 0x7FFFFFFF; }
  // The byte that leads here; a leaf has a bit more, so that no byte leads to it.
  uint32_t label() const { return bits_ & 0x800000FF; }
  uint32_t offset() const { return bits_ >> 10 << ((bits_ & 1U << 9) >> 6); }

 private:
  uint32_t bits_;
};

// None: the text is not base64.
std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (!text.empty() && text.back() == '=') {
    text.remove_suffix(1);
  }
  std::string result;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) {
      return std::nullopt;
    }
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      result += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return result;
}

uint32_t little_endian(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) {
    value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return value;
}

class Precompiled final : public Normalizer {
 public:
  static Result<std::unique_ptr<Normalizer>> read(const JsonValue& json) {
    const std::optional<std::string> table = from_base64(TRY(json.text("precompiled_charsmap")));
    // The bytes of the trie, the trie, and the replacements, each ended by a zero byte.
    constexpr size_t kSize = sizeof(uint32_t);
    const size_t trie = table && table->size() >= kSize ? little_endian(*table, 0) : 0;
    if (trie == 0 || trie % kSize != 0 || trie > table->size() - kSize) {
      return json.error_with("has a precompiled_charsmap that is damaged: it does not begin with a table");
    }
    auto normalizer = std::unique_ptr<Precompiled>(
        new Precompiled(TRY(Regex::compile("\\X", json))));
    for (size_t at = kSize; at < kSize + trie; at += kSize) {
      normalizer->units_.emplace_back(little_endian(*table, at));
    }
    normalizer->replacements_ = table->substr(kSize + trie);
    if (!is_utf8(normalizer->replacements_)) {
      return json.error_with("has a precompiled_charsmap that is damaged: its texts are not UTF-8");
    }
    return normalizer;
  }

  Status normalize(SourcedText& text, Budget& budget) const override {
    const std::string_view whole = text.text;
    Rewriting result(text);
    for (size_t at = 0; at < whole.size();) {
      // As if the text began here: what a cluster is depends on nothing before it. The library would look back, in a
      // row of flags to the first one.
      const size_t size = TRY(clusters_.match_size(whole.substr(at), budget)).value_or(character_size(whole, at));
      const std::string_view cluster = whole.substr(at, size);
      const auto replaced = size <= kMaxClusterBytes ? replacement(cluster) : std::nullopt;
      if (replaced) {
        result.put(*replaced, at, at + size);
      } else {
        put_characters(whole, at, at + size, result);
      }
      TRY(check_text(result.text().size(), budget));
      at += size;
    }
    text = result.take();
    return budget.spend(text.text.size());
  }

  bool may_remove_start() const override { return true; }

 private:
  explicit Precompiled(Regex clusters) : clusters_(std::move(clusters)) {}

  void put_characters(std::string_view text, size_t at, size_t end, Rewriting& result) const {
    while (at < end) {
      const std::string_view one = text.substr(at, character_size(text, at));
      result.put(replacement(one).value_or(one), at, at + one.size());
      at += one.size();
    }
  }

  // Returns the replacement of the table's shortest text with which `text` begins; none: there is no such text.
  std::optional<std::string_view> replacement(std::string_view text) const {
    uint32_t at = units_[0].offset();
    for (const char c : text) {
      const auto byte = static_cast<uint8_t>(c);
      at ^= byte;
      if (byte == 0 || at >= units_.size() || units_[at].label() != byte) {
        return std::nullopt;
      }
      const Unit unit = units_[at];
      at ^= unit.offset();
      if (unit.has_leaf()) {
        const size_t start = at < units_.size() ? units_[at].value() : replacements_.size();
        if (start > replacements_.size() || !is_boundary_of_texts(start)) {
          return std::nullopt;
        }
        const std::string_view rest = std::string_view(replacements_).substr(start);
        return rest.substr(0, rest.find('\0'));
      }
    }
    return std::nullopt;
  }

  // Tells whether no character is cut there: only a damaged table does that.
  bool is_boundary_of_texts(size_t position) const {
    return position == replacements_.size() || character_size(replacements_, position) > 0;
  }

  // The regular expression of user-perceived characters: grapheme clusters.
  Regex clusters_;
  std::vector<Unit> units_;
  std::string replacements_;
};

}  // namespace

Result<std::unique_ptr<Normalizer>> make_precompiled(const JsonValue& json) { return Precompiled::read(json); }

}  // namespace runner

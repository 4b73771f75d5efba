// Matching, splitting and replacing of text in tokenizers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/runner/base/budget.h"
#include "tools/runner/base/json.h"
#include "tools/runner/base/result.h"

namespace runner {

// A budget for the work that a tokenizer does for a text of so many bytes. `where` begins errors: the tokenizer's file.
Budget text_budget(const std::string& where, size_t bytes);

// An error if a text is too long.
Status check_text(size_t size, const Budget& budget);

// Counts the bytes of a text that a step is about to create; an error if it is too long.
Status make_text(size_t size, Budget& budget);

// The entries of a sorted list that begin like a text. They are neighbors, and fewer with each byte of the text.
template <class Iterator, class TextOf>
class Prefixes {
 public:
  // `text_of` gives an entry's text, by which the list is sorted.
  Prefixes(Iterator first, Iterator last, TextOf text_of) : first_(first), last_(last), text_of_(text_of) {}

  // False: no entry begins like the text so far and this byte.
  bool add(char byte) {
    const int value = static_cast<uint8_t>(byte);
    const auto byte_of = [this](const auto& entry) {
      const std::string& text = text_of_(entry);
      return size_ < text.size() ? int{static_cast<uint8_t>(text[size_])} : -1;
    };
    first_ = std::partition_point(first_, last_, [&](const auto& entry) { return byte_of(entry) < value; });
    last_ = std::partition_point(first_, last_, [&](const auto& entry) { return byte_of(entry) <= value; });
    ++size_;
    return first_ != last_;
  }

  // The last entry that is the text so far; none: there is none.
  std::optional<Iterator> whole() const {
    const auto longer = std::partition_point(
        first_, last_, [this](const auto& entry) { return text_of_(entry).size() == size_; });
    return longer == first_ ? std::nullopt : std::optional<Iterator>(longer - 1);
  }

 private:
  Iterator first_;
  Iterator last_;
  TextOf text_of_;
  size_t size_ = 0;
};

// A regular expression over UTF-8 with Oniguruma, the library of Hugging Face's tokenizers, so that
// each pattern has the same meaning.
class Regex {
 public:
  // An error if the pattern is invalid, or needs much more memory than its file; `json` is the part that has it.
  static Result<Regex> compile(const std::string& pattern, const JsonValue& json);
  ~Regex();
  Regex(Regex&&) noexcept;

  // Start and end of each match, from left to right, including empty ones, but for one where the match before it ends.
  // Matches never overlap, and begin and end between characters. The text must be UTF-8.
  Result<std::vector<std::pair<size_t, size_t>>> matches(std::string_view text, Budget& budget) const;

  // Bytes of the match at the start of a text; none: it does not match there.
  Result<std::optional<size_t>> match_size(std::string_view text, Budget& budget) const;

 private:
  struct Compiled;
  explicit Regex(std::string where);
  // Tells whether a match begins at `start`; stores it in `compiled_`'s region.
  Result<bool> match(std::string_view text, size_t start, Budget& budget) const;
  // Tells whether a match begins at or after `start`; likewise.
  Result<bool> search(std::string_view text, size_t start, Budget& budget) const;

  std::unique_ptr<Compiled> compiled_;
  std::string where_;
};

// Treatment of the matches.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// By name in a tokenizer.json.
std::optional<SplitBehavior> split_behavior(const std::string& name);

// The non-empty pieces of a text. `invert` swaps matches and the text between them.
std::vector<std::string_view> split(
    std::string_view text,
    const std::vector<std::pair<size_t, size_t>>& matches,
    SplitBehavior behavior,
    bool invert);

// A regular expression that matches exactly this text.
std::string literal(const std::string& text);

// Start and end of each `pattern`, from left to right; `pattern` must not be empty.
std::vector<std::pair<size_t, size_t>> occurrences(std::string_view text, const std::string& pattern);

// The text with each `pattern` replaced; `pattern` must not be empty.
Result<std::string> replaced(
    const std::string& text,
    const std::string& pattern,
    const std::string& by,
    Budget& budget);

// "Replace" in a tokenizer.json: replaces one text with another.
struct Replacement {
  // An error if it replaces a regular expression.
  static Result<Replacement> read(const JsonValue& json);

  std::string pattern;
  std::string content;
};

// "Metaspace": the character for spaces, and when to insert one before text.
struct MetaspaceForm {
  static Result<MetaspaceForm> read(const JsonValue& json);

  std::string replacement;
  std::string scheme;
};

}  // namespace runner

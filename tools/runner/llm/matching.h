// How tokenizers match, cut and replace text, and what they may spend on it.
//
// A tokenizer.json decides which steps run over a text, and each step can make the text longer. So limits on
// single steps bound nothing: all of them draw on one budget, and a text that uses it up is an error.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/runner/base/json.h"
#include "tools/runner/base/result.h"

namespace runner {

// What a tokenizer may spend on one text.
class Budget {
 public:
  // `where` begins sentences: the tokenizer's file.
  explicit Budget(std::string where);

  // Counts bytes that a step reads or writes. An error if they are too many, or if the steps took too long.
  Status spend(size_t bytes);

  // An error if a text is longer than any that is meant.
  Status check_text(size_t size) const;

  // Both, for a text that a step is about to make.
  Status make_text(size_t size);

  // For steps that are spread over an answer of a model, whose time is not theirs.
  void without_time_limit() { has_time_limit_ = false; }

 private:
  std::string where_;
  std::chrono::steady_clock::time_point began_;
  size_t spent_ = 0;
  bool has_time_limit_ = true;
};

// A regular expression over UTF-8, by Oniguruma: the library that Hugging Face's tokenizers match with, so that
// each pattern means here what it means there.
class Regex {
 public:
  // An error, which begins with `where`, if it is none.
  static Result<Regex> compile(const std::string& pattern, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;

  // Start and end of each match, from left to right, of the empty ones as well. They never overlap, and are
  // where characters begin or the text ends. The text has to be UTF-8.
  Result<std::vector<std::pair<size_t, size_t>>> matches(std::string_view text, Budget& budget) const;

 private:
  struct Compiled;
  explicit Regex(std::string where);
  // Whether there is a match that begins at or after `start`; it is in `compiled_`'s region.
  Result<bool> search(std::string_view text, size_t start, Budget& budget) const;

  std::unique_ptr<Compiled> compiled_;
  std::string where_;
};

// What happens to the matches.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// By its name in a tokenizer.json.
std::optional<SplitBehavior> split_behavior(const std::string& name);

// Pieces of a text that are not empty. With `invert` what matches and what doesn't change places.
std::vector<std::string_view> split(
    std::string_view text,
    const std::vector<std::pair<size_t, size_t>>& matches,
    SplitBehavior behavior,
    bool invert);

// A regular expression for exactly this text.
std::string literal(const std::string& text);

// The text with each `pattern` replaced, which may not be empty.
Result<std::string> replaced(
    const std::string& text,
    const std::string& pattern,
    const std::string& by,
    Budget& budget);

// "Replace" in a tokenizer.json: one text in the place of another.
struct Replacement {
  // An error if it replaces a regular expression.
  static Result<Replacement> read(const JsonValue& json);

  std::string pattern;
  std::string content;
};

// "Metaspace": what stands for spaces, and where one is put before text.
struct MetaspaceForm {
  static Result<MetaspaceForm> read(const JsonValue& json);

  std::string replacement;
  std::string scheme;
};

}  // namespace runner

// How tokenizers match, split and replace text, and their limits.
//
// A tokenizer.json determines the steps for a text, and each step can make the text longer. So limits for
// single steps are useless: all steps share one budget, and a text that exceeds it is an error.
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

// The limits of a tokenizer for one text.
class Budget {
 public:
  // `where` begins errors: the tokenizer's file.
  explicit Budget(std::string where);

  // Counts bytes that a step reads or writes. An error if there are too many, or if the steps took too long.
  Status spend(size_t bytes);

  // An error if a text is too long.
  Status check_text(size_t size) const;

  // "<where>: <problem>."
  Status error_with(const std::string& problem) const { return error(where_ + ": " + problem + "."); }

  // Both checks, for a text that a step is about to create.
  Status make_text(size_t size);

  // For steps that alternate with the model's own computation, whose time does not count.
  void without_time_limit() { has_time_limit_ = false; }

 private:
  std::string where_;
  std::chrono::steady_clock::time_point began_;
  size_t spent_ = 0;
  bool has_time_limit_ = true;
};

// A regular expression over UTF-8 with Oniguruma, the library of Hugging Face's tokenizers, so that
// each pattern has the same meaning.
class Regex {
 public:
  // An error, which begins with `where`, if the pattern is invalid.
  static Result<Regex> compile(const std::string& pattern, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;

  // Start and end of each match, from left to right, including empty ones. Matches never overlap, and begin and end
  // between characters. The text must be UTF-8.
  Result<std::vector<std::pair<size_t, size_t>>> matches(std::string_view text, Budget& budget) const;

 private:
  struct Compiled;
  explicit Regex(std::string where);
  // Whether a match begins at or after `start`; stores it in `compiled_`'s region.
  Result<bool> search(std::string_view text, size_t start, Budget& budget) const;

  std::unique_ptr<Compiled> compiled_;
  std::string where_;
};

// What happens to the matches.
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

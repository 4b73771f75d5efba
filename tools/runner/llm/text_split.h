// The ways in which tokenizers cut text where something matches.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace runner {

// What happens to the matches.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// By its name in a tokenizer.json.
std::optional<SplitBehavior> split_behavior(const std::string& name);

// Pieces of a text. With `invert` what matches and what doesn't change places.
std::vector<std::string_view> split(
    std::string_view text,
    const std::vector<std::pair<size_t, size_t>>& matches,
    SplitBehavior behavior,
    bool invert);

// A regular expression for exactly this text.
std::string literal(const std::string& text);

// Ends the process with a sentence if a tokenizer would make more of a text than anybody means: some of its
// steps double a text, and a file can have any number of them.
void check_length(size_t size);

// The text with each `pattern` replaced, which may not be empty. Checks its length.
std::string replaced(const std::string& text, const std::string& pattern, const std::string& by);

}  // namespace runner

#include "tools/runner/llm/text_split.h"

#include <algorithm>

#include "tools/runner/base/fail.h"

namespace runner {
namespace {

constexpr size_t kMostText = 64 << 20;

struct Part {
  size_t start;
  size_t end;
  bool is_match;
};

// All of the text, in order.
std::vector<Part> parts_of(
    size_t size,
    const std::vector<std::pair<size_t, size_t>>& matches,
    bool invert) {
  std::vector<Part> parts;
  size_t at = 0;
  for (const auto& [start, end] : matches) {
    if (at < start) {
      parts.push_back({at, start, invert});
    }
    parts.push_back({start, end, !invert});
    at = end;
  }
  if (at < size) {
    parts.push_back({at, size, invert});
  }
  return parts;
}

// Joins each match with the part before it in `parts`, unless that is a match, too.
std::vector<Part> merged(const std::vector<Part>& parts) {
  std::vector<Part> whole;
  bool after_match = false;
  for (const Part& part : parts) {
    if (part.is_match && !after_match && !whole.empty()) {
      whole.back().start = std::min(whole.back().start, part.start);
      whole.back().end = std::max(whole.back().end, part.end);
    } else {
      whole.push_back(part);
    }
    after_match = part.is_match;
  }
  return whole;
}

std::vector<Part> contiguous(const std::vector<Part>& parts) {
  std::vector<Part> whole;
  for (const Part& part : parts) {
    if (!whole.empty() && whole.back().is_match == part.is_match) {
      whole.back().end = part.end;
    } else {
      whole.push_back(part);
    }
  }
  return whole;
}

}  // namespace

std::optional<SplitBehavior> split_behavior(const std::string& name) {
  constexpr std::pair<const char*, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  };
  for (const auto& [known, behavior] : kNames) {
    if (name == known) {
      return behavior;
    }
  }
  return std::nullopt;
}

std::vector<std::string_view> split(
    std::string_view text,
    const std::vector<std::pair<size_t, size_t>>& matches,
    SplitBehavior behavior,
    bool invert) {
  std::vector<Part> parts = parts_of(text.size(), matches, invert);
  if (behavior == SplitBehavior::kMergedWithPrevious) {
    parts = merged(parts);
  } else if (behavior == SplitBehavior::kMergedWithNext) {
    std::reverse(parts.begin(), parts.end());
    parts = merged(parts);
    std::reverse(parts.begin(), parts.end());
  } else if (behavior == SplitBehavior::kContiguous) {
    parts = contiguous(parts);
  }
  std::vector<std::string_view> pieces;
  for (const Part& part : parts) {
    if (!part.is_match || behavior != SplitBehavior::kRemoved) {
      pieces.push_back(text.substr(part.start, part.end - part.start));
    }
  }
  return pieces;
}

void check_length(size_t size) {
  if (size > kMostText) {
    fail("the tokenizer would make " + std::to_string(size) + " bytes of a text, wanted at most " +
         std::to_string(kMostText) + "; its tokenizer.json is damaged, or the text is too long.");
  }
}

std::string literal(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    const bool is_mark = (c >= '!' && c <= '/') || (c >= ':' && c <= '@') ||
        (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
    pattern += is_mark ? std::string("\\") + c : std::string(1, c);
  }
  return pattern;
}

std::string replaced(const std::string& text, const std::string& pattern, const std::string& by) {
  size_t count = 0;
  for (size_t found = 0; (found = text.find(pattern, found)) != std::string::npos;
       found += pattern.size()) {
    ++count;
  }
  check_length(text.size() + count * by.size());
  std::string result;
  size_t at = 0;
  for (size_t found = 0; (found = text.find(pattern, at)) != std::string::npos;
       at = found + pattern.size()) {
    result += text.substr(at, found - at) + by;
  }
  return result + text.substr(at);
}

}  // namespace runner

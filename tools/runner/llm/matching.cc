#include "tools/runner/llm/matching.h"

#include <oniguruma.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tools/runner/base/os.h"
#include "tools/runner/base/text.h"

namespace runner {
namespace {

// More than a million tokens, which is more than any model's context.
constexpr size_t kMostText = 4 << 20;
constexpr size_t kMostWork = size_t{1} << 30;
constexpr double kMostMilliseconds = 5000;
// The cost of a step without work.
constexpr size_t kStep = 64;

// Bytes of a pattern; known tokenizers have less than 1000.
constexpr size_t kMostPattern = 8 << 10;
constexpr unsigned kMostDepth = 200;
// Oniguruma's own limit, which Hugging Face's tokenizers use.
constexpr unsigned long kMostSteps = 10'000'000;
// Entries of about 40 bytes.
constexpr unsigned kMostStack = 8 << 20;
// Positions to search between checks of the budget.
constexpr size_t kPositions = 32;

const OnigUChar* bytes(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

void initialize() {
  static const bool once = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
    onig_set_parse_depth_limit(kMostDepth);
    return true;
  }();
  static_cast<void>(once);
}

bool is_boundary(std::string_view text, size_t position) {
  return position == text.size() ||
      (position < text.size() && (static_cast<uint8_t>(text[position]) & 0xC0) != 0x80);
}

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

Budget::Budget(std::string where) : where_(std::move(where)), began_(now()) {}

Status Budget::spend(size_t bytes) {
  spent_ += bytes < kMostWork ? bytes + kStep : kMostWork;
  if (spent_ >= kMostWork || (has_time_limit_ && milliseconds_since(began_) > kMostMilliseconds)) {
    return error(where_ + ": the tokenizer takes too long for a text: got more than " +
         (spent_ >= kMostWork ? std::to_string(kMostWork) + " bytes of work"
                              : std::to_string(kMostMilliseconds / 1000).substr(0, 1) + " seconds") +
         ". Check the file's regular expressions and steps, or shorten the text.");
  }
  return {};
}

Status Budget::check_text(size_t size) const {
  if (size > kMostText) {
    return error(where_ + ": the tokenizer makes a text too long: got " + std::to_string(size) +
         " bytes, expected at most " + std::to_string(kMostText) +
         ". Check the file's steps, or shorten the text.");
  }
  return {};
}

Status Budget::make_text(size_t size) {
  TRY(check_text(size));
  return spend(size);
}

struct Regex::Compiled {
  OnigRegex regex = nullptr;
  OnigRegion* region = nullptr;
  OnigMatchParam* limits = nullptr;

  ~Compiled() {
    if (limits != nullptr) {
      onig_free_match_param(limits);
    }
    if (region != nullptr) {
      onig_region_free(region, /*free_self=*/1);
    }
    onig_free(regex);
  }
};

Regex::Regex(std::string where) : compiled_(std::make_unique<Compiled>()), where_(std::move(where)) {}

Regex::Regex(Regex&&) noexcept = default;

Regex::~Regex() = default;

Result<Regex> Regex::compile(const std::string& pattern, const std::string& where) {
  const std::string shown = pattern.size() <= 1000 ? pattern : pattern.substr(0, 1000) + "...";
  if (pattern.size() > kMostPattern) {
    return error(where + ": the regular expression \"" + repaired(shown) + "\" is too long: got " +
         std::to_string(pattern.size()) + " bytes, expected at most " +
         std::to_string(kMostPattern) + ".");
  }
  // The first refers to the start of a search, and here each position starts one; the second has no limit of steps.
  for (const char* construct : {"\\G", "(?~"}) {
    if (pattern.find(construct) != std::string::npos) {
      return error(where + ": the regular expression \"" + shown + "\" has " + construct +
           ", which the runner does not support.");
    }
  }
  initialize();
  Regex regex(where);
  Compiled& compiled = *regex.compiled_;
  OnigErrorInfo info;
  const int result = onig_new(
      &compiled.regex,
      bytes(pattern),
      bytes(pattern) + pattern.size(),
      ONIG_OPTION_NONE,
      ONIG_ENCODING_UTF8,
      ONIG_SYNTAX_DEFAULT,
      &info);
  if (result != ONIG_NORMAL) {
    OnigUChar words[ONIG_MAX_ERROR_MESSAGE_LEN] = {};
    onig_error_code_to_str(words, result, &info);
    return error(where + ": the regular expression \"" + shown + "\" is malformed: " +
         repaired(reinterpret_cast<const char*>(words)) + ".");
  }
  compiled.region = onig_region_new();
  compiled.limits = onig_new_match_param();
  if (compiled.region == nullptr || compiled.limits == nullptr) {
    return error("out of memory for a tokenizer.");
  }
  onig_initialize_match_param(compiled.limits);
  onig_set_match_stack_limit_size_of_match_param(compiled.limits, kMostStack);
  onig_set_retry_limit_in_match_of_match_param(compiled.limits, kMostSteps);
  return regex;
}

Result<bool> Regex::search(std::string_view text, size_t start, Budget& budget) const {
  const OnigUChar* const begin = bytes(text);
  // Position by position, because Oniguruma's own search cannot be interrupted.
  size_t positions = 0;
  for (size_t at = start; at <= text.size(); ++at) {
    if (!is_boundary(text, at)) {
      continue;
    }
    if (positions++ % kPositions == 0) {
      TRY(budget.spend(std::min(kPositions, text.size() - at)));
    }
    const int result = onig_match_with_param(
        compiled_->regex,
        begin,
        begin + text.size(),
        begin + at,
        compiled_->region,
        ONIG_OPTION_NONE,
        compiled_->limits);
    if (result >= 0) {
      return true;
    }
    if (result != ONIG_MISMATCH) {
      OnigUChar words[ONIG_MAX_ERROR_MESSAGE_LEN] = {};
      onig_error_code_to_str(words, result);
      return error(where_ + ": the regular expression takes too long for a text: " +
           reinterpret_cast<const char*>(words) + ". Check the file, or shorten the text.");
    }
  }
  return false;
}

Result<std::vector<std::pair<size_t, size_t>>> Regex::matches(std::string_view text, Budget& budget) const {
  std::vector<std::pair<size_t, size_t>> all;
  // As in Hugging Face's: the next empty match after a match does not count.
  bool skips_empty = false;
  size_t last = 0;
  for (size_t at = 0; at <= text.size() && TRY(search(text, at, budget));) {
    const int first = compiled_->region->beg[0], second = compiled_->region->end[0];
    const auto start = static_cast<size_t>(first), end = static_cast<size_t>(second);
    if (first < 0 || second < first || start < last || !is_boundary(text, start) ||
        !is_boundary(text, end)) {
      return error(where_ + ": the regular expression matches outside of what is searched (\\K in a "
           "look-around?), which the runner does not support.");
    }
    at = end;
    if (start == end) {
      at += end < text.size() ? character_size(text, end) : 1;
      if (skips_empty) {
        skips_empty = false;
        continue;
      }
    } else {
      skips_empty = true;
    }
    all.emplace_back(start, end);
    last = end;
  }
  return all;
}

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
    if (part.start < part.end && (!part.is_match || behavior != SplitBehavior::kRemoved)) {
      pieces.push_back(text.substr(part.start, part.end - part.start));
    }
  }
  return pieces;
}

std::string literal(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    // Escapes only characters with a meaning: some others get one when escaped.
    pattern += std::string_view("\\.+*?()|[]{}^$#&-~").find(c) == std::string_view::npos
        ? std::string(1, c)
        : std::string("\\") + c;
  }
  return pattern;
}

Result<std::string> replaced(
    const std::string& text,
    const std::string& pattern,
    const std::string& by,
    Budget& budget) {
  size_t count = 0;
  for (size_t match = 0; (match = text.find(pattern, match)) != std::string::npos;
       match += pattern.size()) {
    ++count;
  }
  TRY(budget.make_text(text.size() - count * pattern.size() + count * by.size()));
  std::string result;
  size_t at = 0;
  for (size_t match = 0; (match = text.find(pattern, at)) != std::string::npos;
       at = match + pattern.size()) {
    result.append(text, at, match - at).append(by);
  }
  return std::move(result.append(text, at, std::string::npos));
}

Result<Replacement> Replacement::read(const JsonValue& json) {
  const std::string pattern = TRY(TRY(json.at("pattern")).text("String", ""));
  if (pattern.empty()) {
    return json.error_with("replaces a regular expression, which the runner does not");
  }
  const std::string content = TRY(json.text("content"));
  return Replacement{pattern, content};
}

Result<MetaspaceForm> MetaspaceForm::read(const JsonValue& json) {
  const std::string replacement = TRY(json.text("replacement", "\xE2\x96\x81"));
  const bool adds_prefix = TRY(json.flag("add_prefix_space", true));
  const std::string scheme = TRY(json.text("prepend_scheme", adds_prefix ? "always" : "never"));
  if (replacement.empty() || character_size(replacement, 0) != replacement.size()) {
    return json.error_with("has a replacement that is not one character");
  }
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    return json.error_with("has the prepend_scheme \"" + scheme + "\", which the runner does not support");
  }
  return MetaspaceForm{replacement, scheme};
}

}  // namespace runner

#include "tools/runner/llm/matching.h"

#include <oniguruma.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <utility>

#include "tools/runner/base/text.h"

// Of our build of the library: toolchains/runtime/oniguruma.bzl.
extern "C" {
void onig_limit_steps_of_match_param(OnigMatchParam* limits, unsigned long most);
unsigned long onig_get_steps_of_match_param(OnigMatchParam* limits);
unsigned long onig_allocated();
}

namespace runner {
namespace {

// More than a million tokens, which is more than any model's context.
constexpr size_t kMaxText = 4 << 20;

// Bytes of a pattern; known tokenizers have less than 1000.
constexpr size_t kMaxPattern = 8 << 10;
constexpr unsigned kMaxDepth = 200;
// Oniguruma's own limit, which Hugging Face's tokenizers use.
constexpr unsigned long kMaxSteps = 10'000'000;
// Entries of about 40 bytes.
constexpr unsigned kMaxStack = 8 << 20;
const OnigUChar* bytes(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

void initialize() {
  static const bool once = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
    onig_set_parse_depth_limit(kMaxDepth);
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

Budget text_budget(const std::string& where, size_t bytes) {
  return {where, "the tokenizer takes too long for a text",
          "Check the file's regular expressions and steps, or shorten the text.", bytes};
}

Status check_text(size_t size, const Budget& budget) {
  if (size > kMaxText) {
    return error(budget.where() + ": the tokenizer makes a text too long: got " + std::to_string(size) +
         " bytes, expected at most " + std::to_string(kMaxText) +
         ". Check the file's steps, or shorten the text.");
  }
  return {};
}

Status make_text(size_t size, Budget& budget) {
  TRY(check_text(size, budget));
  return budget.spend(size);
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

Result<Regex> Regex::compile(const std::string& pattern, const JsonValue& json) {
  const std::string& where = json.where();
  const std::string shown = pattern.size() <= 1000 ? pattern : pattern.substr(0, 1000) + "...";
  if (pattern.size() > kMaxPattern) {
    return error(where + ": the regular expression \"" + repaired(shown) + "\" is too long: got " +
         std::to_string(pattern.size()) + " bytes, expected at most " +
         std::to_string(kMaxPattern) + ".");
  }
  // The first refers to the start of a search, and here each position starts one; of the second, not all steps count.
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
  const unsigned long before = onig_allocated();
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
  TRY(json.budget().spend((onig_allocated() - before + where.size()) * Budget::kStepsPerHeldByte));
  compiled.region = onig_region_new();
  compiled.limits = onig_new_match_param();
  if (compiled.region == nullptr || compiled.limits == nullptr) {
    return error("out of memory for a tokenizer.");
  }
  onig_initialize_match_param(compiled.limits);
  onig_set_match_stack_limit_size_of_match_param(compiled.limits, kMaxStack);
  onig_set_retry_limit_in_match_of_match_param(compiled.limits, kMaxSteps);
  return regex;
}

Result<bool> Regex::match(std::string_view text, size_t start, Budget& budget) const {
  const OnigUChar* const begin = bytes(text);
  onig_limit_steps_of_match_param(compiled_->limits, static_cast<unsigned long>(std::min<uint64_t>(budget.left(), ULONG_MAX)));
  const int result = onig_match_with_param(
      compiled_->regex,
      begin,
      begin + text.size(),
      begin + start,
      compiled_->region,
      ONIG_OPTION_NONE,
      compiled_->limits);
  TRY(budget.spend(onig_get_steps_of_match_param(compiled_->limits)));
  if (result >= 0 || result == ONIG_MISMATCH) {
    return result >= 0;
  }
  OnigUChar words[ONIG_MAX_ERROR_MESSAGE_LEN] = {};
  onig_error_code_to_str(words, result);
  return error(where_ + ": the regular expression takes too long for a text: " +
       reinterpret_cast<const char*>(words) + ". Check the file, or shorten the text.");
}

Result<bool> Regex::search(std::string_view text, size_t start, Budget& budget) const {
  // Position by position, because Oniguruma's own search does not count what it skips.
  for (size_t at = start; at <= text.size(); ++at) {
    if (is_boundary(text, at) && TRY(match(text, at, budget))) {
      return true;
    }
  }
  return false;
}

Result<std::vector<std::pair<size_t, size_t>>> Regex::matches(std::string_view text, Budget& budget) const {
  std::vector<std::pair<size_t, size_t>> all;
  // As in Hugging Face's: nothing matches an empty text.
  for (size_t at = 0; !text.empty() && at <= text.size() && TRY(search(text, at, budget));) {
    const int first = compiled_->region->beg[0], second = compiled_->region->end[0];
    const auto start = static_cast<size_t>(first), end = static_cast<size_t>(second);
    const size_t last = all.empty() ? 0 : all.back().second;
    if (first < 0 || second < first || start < last || !is_boundary(text, start) ||
        !is_boundary(text, end)) {
      return error(where_ + ": the regular expression matches outside of what is searched (\\K in a "
           "look-around?), which the runner does not support.");
    }
    // As in Hugging Face's: an empty match at the end of the match before it does not count.
    if (start == end && !all.empty() && end == last) {
      at += at < text.size() ? character_size(text, at) : 1;
      continue;
    }
    at = end;
    all.emplace_back(start, end);
  }
  return all;
}

Result<std::optional<size_t>> Regex::match_size(std::string_view text, Budget& budget) const {
  if (!TRY(match(text, 0, budget))) {
    return std::optional<size_t>();
  }
  return std::optional(static_cast<size_t>(compiled_->region->end[0]));
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

std::vector<std::pair<size_t, size_t>> occurrences(std::string_view text, const std::string& pattern) {
  std::vector<std::pair<size_t, size_t>> all;
  for (size_t at = 0; (at = text.find(pattern, at)) != std::string_view::npos; at += pattern.size()) {
    all.emplace_back(at, at + pattern.size());
  }
  return all;
}

Result<std::string> replaced(
    const std::string& text,
    const std::string& pattern,
    const std::string& by,
    Budget& budget) {
  const auto all = occurrences(text, pattern);
  TRY(make_text(text.size() - all.size() * pattern.size() + all.size() * by.size(), budget));
  std::string result;
  size_t at = 0;
  for (const auto& [start, end] : all) {
    result.append(text, at, start - at).append(by);
    at = end;
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

#include "tools/runner/llm/normalizer.h"

extern "C" {
#include <libunicode.h>
}

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "tools/runner/base/text.h"
#include "tools/runner/llm/character_tables.h"
#include "tools/runner/llm/matching.h"
#include "tools/runner/llm/precompiled.h"

namespace runner {
namespace {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// No character before it combines.
constexpr uint32_t kFirstMark = 0x300;
// The library sorts the marks of a character by insertion: the cost of a comparison in bytes.
constexpr size_t kComparison = 16;
constexpr size_t kFewMarks = 100;

// Hugging Face's tokenizers use version 9 of Unicode, the library a newer one. Normal forms change or combine
// these characters, which are newer than version 9, so they are skipped. So is U+11A7, which is not part of Korean
// syllables, but which the library drops.
constexpr CharacterRange kKept[] = {
    {0x7FD, 0x7FD}, {0x897, 0x89F}, {0x8CA, 0x8D3}, {0x9FE, 0x9FE}, {0xC3C, 0xC3C}, {0xD3B, 0xD3C},
    {0xEBA, 0xEBA}, {0x11A7, 0x11A7}, {0x1715, 0x1715}, {0x1ABF, 0x1ADD}, {0x1AE0, 0x1AEB}, {0x1DF6, 0x1DFA},
    {0x32FF, 0x32FF}, {0xA7F1, 0xA7F4}, {0xA82C, 0xA82C}, {0xAB69, 0xAB69}, {0x105C9, 0x105C9},
    {0x105D2, 0x105D2}, {0x105DA, 0x105DA}, {0x105E4, 0x105E4}, {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BA}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC}, {0x10EFA, 0x10EFB},
    {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B},
    {0x11382, 0x11385}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x11391}, {0x113B8, 0x113B8},
    {0x113BB, 0x113BB}, {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113C9}, {0x113CE, 0x113D0},
    {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11935, 0x11935}, {0x11938, 0x11938},
    {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47},
    {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x1611E, 0x16129}, {0x1612F, 0x1612F}, {0x16D63, 0x16D63}, {0x16D67, 0x16D6A}, {0x16FF0, 0x16FF1},
    {0x1CCD6, 0x1CCF9}, {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}, {0x1E6E3, 0x1E6E3}, {0x1E6E6, 0x1E6E6},
    {0x1E6EE, 0x1E6EF}, {0x1E6F5, 0x1E6F5}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};

// Hugging Face's tokenizers lowercase by a newer version of Unicode than the library: it lacks these.
struct NewCase {
  uint32_t first;
  uint32_t last;
  int32_t to_lower;
};

constexpr NewCase kNewCases[] = {
    {0x1C89, 0x1C89, 1}, {0x2C2F, 0x2C2F, 48}, {0xA7C0, 0xA7C0, 1}, {0xA7CB, 0xA7CB, -42343},
    {0xA7CC, 0xA7CC, 1}, {0xA7CE, 0xA7CE, 1}, {0xA7D0, 0xA7D0, 1}, {0xA7D2, 0xA7D2, 1},
    {0xA7D4, 0xA7D4, 1}, {0xA7D6, 0xA7D6, 1}, {0xA7D8, 0xA7D8, 1}, {0xA7DA, 0xA7DA, 1},
    {0xA7DC, 0xA7DC, -42561}, {0x10570, 0x1057A, 39}, {0x1057C, 0x1058A, 39}, {0x1058C, 0x10592, 39},
    {0x10594, 0x10595, 39}, {0x10D50, 0x10D65, 32}, {0x16EA0, 0x16EB8, 27},
};

// With `size` 0: frees.
void* resize(void*, void* memory, size_t size) {
  if (size == 0) {
    free(memory);
    return nullptr;
  }
  return realloc(memory, size);
}

Status check_marks(const std::vector<uint32_t>& points, Budget& budget) {
  size_t marks = 0;
  for (const uint32_t point : points) {
    // Includes digits: it is enough that no mark is missing.
    const bool may_combine =
        point >= kFirstMark && lre_is_id_continue(point) && !lre_is_id_start(point);
    marks = may_combine ? marks + 1 : 0;
    if (marks > kFewMarks) {
      TRY(budget.spend(marks * kComparison));
    }
  }
  return {};
}

Status add_normalized(const std::vector<uint32_t>& points, NormalForm form, std::string& result) {
  constexpr UnicodeNormalizationEnum kForms[] = {
      UNICODE_NFC, UNICODE_NFD, UNICODE_NFKC, UNICODE_NFKD};
  uint32_t* normal = nullptr;
  const int size = unicode_normalize(
      &normal,
      points.data(),
      static_cast<int>(points.size()),
      kForms[static_cast<size_t>(form)],
      nullptr,
      resize);
  if (size < 0) {
    return error("out of memory for a text.");
  }
  for (int i = 0; i < size; ++i) {
    result += character(normal[i]);
  }
  free(normal);
  return {};
}

// By its name: "NFC", "NFD", "NFKC" or "NFKD".
std::optional<NormalForm> normal_form(const std::string& name) {
  const std::string names[] = {"NFC", "NFD", "NFKC", "NFKD"};
  const auto* const known = std::find(std::begin(names), std::end(names), name);
  return known == std::end(names)
      ? std::nullopt
      : std::optional(static_cast<NormalForm>(known - std::begin(names)));
}

// A text in a normal form, as in Hugging Face's tokenizers. The text must be UTF-8.
Result<std::string> normalized(const std::string& text, NormalForm form, Budget& budget) {
  TRY(make_text(text.size(), budget));
  std::string result;
  std::vector<uint32_t> points;
  const auto flush = [&]() -> Status {
    if (!points.empty()) {
      TRY(check_marks(points, budget));
      TRY(add_normalized(points, form, result));
      points.clear();
    }
    return {};
  };
  for (size_t i = 0; i < text.size();) {
    const size_t size = character_size(text, i);
    const uint32_t point = code_point(std::string_view(text).substr(i, size));
    // Nothing combines across such a character, so the texts before and after it have separate normal forms.
    if (is_in(kKept, point)) {
      TRY(flush());
      result.append(text, i, size);
    } else {
      points.push_back(point);
    }
    i += size;
  }
  TRY(flush());
  TRY(make_text(result.size(), budget));
  return result;
}

// Tells whether a character may combine with the one before it; includes some that do not.
bool may_combine(uint32_t point) {
  constexpr CharacterRange kKorean = {0x1160, 0x11FF};
  return point >= kFirstMark &&
      ((point >= kKorean.first && point <= kKorean.last) || (lre_is_id_continue(point) && !lre_is_id_start(point)));
}

bool may_combine_at(std::string_view text, size_t position) {
  return position < text.size() && may_combine(code_point(text.substr(position, character_size(text, position))));
}

// The ranges, extended to where nothing combines with them.
std::vector<Range> whole_ranges(const SourcedText& text) {
  std::vector<Range> ranges;
  for (Range range : text.said) {
    const size_t least = ranges.empty() ? 0 : ranges.back().end;
    while (range.start > least && (character_size(text.text, range.start) == 0 || may_combine_at(text.text, range.start))) {
      --range.start;
    }
    range.end = std::max(range.end, least);
    while (may_combine_at(text.text, range.end)) {
      range.end += character_size(text.text, range.end);
    }
    if (!ranges.empty() && range.start <= least) {
      ranges.back().end = range.end;
    } else {
      ranges.push_back(range);
    }
  }
  return ranges;
}

// Appends what replaces a character of a text.
using Mapping = void (*)(uint32_t point, std::string_view character, std::string& result);

void add_lower(uint32_t point, std::string_view, std::string& result) {
  for (const NewCase& range : kNewCases) {
    if (point >= range.first && point <= range.last) {
      result += character(static_cast<uint32_t>(static_cast<int32_t>(point) + range.to_lower));
      return;
    }
  }
  uint32_t lower[LRE_CC_RES_LEN_MAX];
  constexpr int kToLower = 1;
  const int count = lre_case_conv(lower, point, kToLower);
  for (int i = 0; i < count; ++i) {
    result += character(lower[i]);
  }
}

void add_clean(uint32_t point, std::string_view one, std::string& result) {
  if (!is_in(kRemoved, point)) {
    result += is_space(point) ? " " : one;
  }
}

void add_chinese(uint32_t point, std::string_view one, std::string& result) {
  constexpr CharacterRange kChinese[] = {
      {0x3400, 0x4DBF}, {0x4E00, 0x9FFF}, {0xF900, 0xFAFF}, {0x20000, 0x2A6DF},
      {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F},
  };
  const char* const space = is_in(kChinese, point) ? " " : "";
  result.append(space).append(one).append(space);
}

void add_without_accent(uint32_t point, std::string_view one, std::string& result) {
  result += is_in(kNonspacing, point) ? "" : one;
}

void add_without_mark(uint32_t point, std::string_view one, std::string& result) {
  result += is_in(kMarks, point) ? "" : one;
}

class Mapped final : public Normalizer {
 public:
  explicit Mapped(Mapping map) : map_(map) {}

  Status normalize(SourcedText& text, Budget& budget) const override {
    TRY(make_text(text.text.size(), budget));
    Rewriting result(text);
    std::string mapped;
    for (size_t i = 0; i < text.text.size();) {
      const std::string_view one = std::string_view(text.text).substr(i, character_size(text.text, i));
      mapped.clear();
      map_(code_point(one), one, mapped);
      result.put(mapped, i, i + one.size());
      i += one.size();
    }
    text = result.take();
    return make_text(text.text.size(), budget);
  }

  bool may_remove_start() const override { return map_ != add_lower && map_ != add_chinese; }

 private:
  Mapping map_;
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  Status normalize(SourcedText& text, Budget& budget) const override {
    TRY(make_text(text.text.size(), budget));
    size_t start = 0, end = 0;
    bool is_inside = !left_;
    for (size_t i = 0; i < text.text.size();) {
      const size_t size = character_size(text.text, i);
      const bool is_kept = !is_space(code_point(std::string_view(text.text).substr(i, size)));
      start = is_inside || is_kept ? start : i + size;
      is_inside = is_inside || is_kept;
      i += size;
      end = is_kept || !right_ ? i : end;
    }
    Rewriting result(text);
    result.keep(start, std::max(start, end));
    text = result.take();
    return {};
  }

  bool may_remove_start() const override { return left_; }

 private:
  bool left_;
  bool right_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}

  Status normalize(SourcedText& text, Budget& budget) const override {
    TRY(make_text(text_.size() + text.text.size(), budget));
    if (!text.text.empty()) {
      Rewriting result(text);
      result.put(text_, 0, 0);
      result.keep(0, text.text.size());
      text = result.take();
    }
    return {};
  }

 private:
  std::string text_;
};

// Replaces the matches of a regular expression, or a text.
class Replace final : public Normalizer {
 public:
  Replace(std::optional<Regex> regex, std::string pattern, std::string content)
      : regex_(std::move(regex)), pattern_(std::move(pattern)), content_(std::move(content)) {}

  Status normalize(SourcedText& text, Budget& budget) const override {
    TRY(budget.spend(text.text.size()));
    const auto matches = regex_ ? TRY(regex_->matches(text.text, budget)) : occurrences(text.text, pattern_);
    TRY(make_text(text.text.size() + matches.size() * content_.size(), budget));
    Rewriting result(text);
    size_t at = 0;
    for (const auto& [start, end] : matches) {
      result.keep(at, start);
      result.put(content_, start, end);
      at = end;
    }
    result.keep(at, text.text.size());
    text = result.take();
    return {};
  }

  bool may_remove_start() const override { return content_.empty(); }

 private:
  std::optional<Regex> regex_;  // None: it replaces `pattern_`.
  std::string pattern_;
  std::string content_;
};

class Unicode final : public Normalizer {
 public:
  explicit Unicode(NormalForm form) : form_(form) {}

  Status normalize(SourcedText& text, Budget& budget) const override {
    SourcedText result = {TRY(normalized(text.text, form_, budget)), {}};
    std::string parts;
    size_t at = 0;
    const auto add = [&](size_t end) -> Status {
      parts += TRY(normalized(text.text.substr(at, end - at), form_, budget));
      at = end;
      return {};
    };
    for (const Range& range : whole_ranges(text)) {
      TRY(add(range.start));
      const size_t start = parts.size();
      TRY(add(range.end));
      result.said.push_back({start, parts.size()});
    }
    if (!result.said.empty()) {
      TRY(add(text.text.size()));
      if (parts != result.text) {
        // User text combines with other text in a way that is not known here: treats all as user text.
        result.said = {{0, result.text.size()}};
      }
    }
    text = std::move(result);
    return {};
  }

 private:
  NormalForm form_;
};

class Sequence final : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}

  Status normalize(SourcedText& text, Budget& budget) const override {
    for (const auto& part : parts_) {
      TRY(part->normalize(text, budget));
    }
    return {};
  }

  bool may_remove_start() const override {
    return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->may_remove_start(); });
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

// BertNormalizer is a sequence of simpler normalizers.
Result<std::unique_ptr<Normalizer>> make_bert(const JsonValue& json) {
  const bool lowers = TRY(json.flag("lowercase", true));
  std::vector<std::unique_ptr<Normalizer>> parts;
  if (TRY(json.flag("clean_text", true))) {
    parts.push_back(std::make_unique<Mapped>(add_clean));
  }
  if (TRY(json.flag("handle_chinese_chars", true))) {
    parts.push_back(std::make_unique<Mapped>(add_chinese));
  }
  if (TRY(json.flag("strip_accents", lowers))) {
    parts.push_back(std::make_unique<Unicode>(NormalForm::kNfd));
    parts.push_back(std::make_unique<Mapped>(add_without_accent));
  }
  if (lowers) {
    parts.push_back(std::make_unique<Mapped>(add_lower));
  }
  return std::make_unique<Sequence>(std::move(parts));
}

Result<std::unique_ptr<Normalizer>> make_replace(const JsonValue& json) {
  const JsonValue pattern = TRY(json.at("pattern"));
  std::optional<Regex> regex;
  std::string text;
  if (pattern.has("Regex")) {
    regex.emplace(TRY(Regex::compile(TRY(pattern.text("Regex")), json)));
  } else {
    text = TRY(Replacement::read(json)).pattern;
  }
  return std::make_unique<Replace>(std::move(regex), std::move(text), TRY(json.text("content")));
}

}  // namespace

void Rewriting::add_said(size_t start, size_t end) {
  if (start == end) {
    return;
  }
  if (!to_.said.empty() && to_.said.back().end == start) {
    to_.said.back().end = end;
  } else {
    to_.said.push_back({start, end});
  }
}

void Rewriting::put(std::string_view text, size_t start, size_t end) {
  while (next_ < from_.said.size() && from_.said[next_].end <= start) {
    ++next_;
  }
  const size_t before = to_.text.size();
  to_.text += text;
  if (next_ < from_.said.size() && from_.said[next_].start < end) {
    add_said(before, to_.text.size());
  }
}

void Rewriting::keep(size_t start, size_t end) {
  const size_t before = to_.text.size();
  to_.text.append(from_.text, start, end - start);
  while (next_ < from_.said.size() && from_.said[next_].start < end) {
    const Range& range = from_.said[next_];
    if (range.end > start) {
      add_said(before + std::max(range.start, start) - start, before + std::min(range.end, end) - start);
    }
    if (range.end > end) {
      break;
    }
    ++next_;
  }
}

Result<std::unique_ptr<Normalizer>> make_normalizer(const JsonValue& json, Budget& budget) {
  TRY(budget.spend(0));
  const std::string type = TRY(json.text("type"));
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Normalizer>> parts;
    for (const JsonValue& part : TRY(json.items("normalizers"))) {
      parts.push_back(TRY(make_normalizer(part, budget)));
    }
    return std::make_unique<Sequence>(std::move(parts));
  }
  if (type == "BertNormalizer") {
    return make_bert(json);
  }
  if (type == "Lowercase" || type == "StripAccents") {
    return std::make_unique<Mapped>(type == "Lowercase" ? add_lower : add_without_mark);
  }
  if (type == "Strip") {
    const bool left = TRY(json.flag("strip_left", true));
    return std::make_unique<Strip>(left, TRY(json.flag("strip_right", true)));
  }
  if (type == "Prepend") {
    return std::make_unique<Prepend>(TRY(json.text("prepend")));
  }
  if (type == "Precompiled") {
    return make_precompiled(json);
  }
  if (type == "Replace") {
    return make_replace(json);
  }
  if (const auto form = normal_form(type)) {
    return std::make_unique<Unicode>(*form);
  }
  return json.error_with("is of type \"" + type + "\", which the runner does not support");
}

}  // namespace runner

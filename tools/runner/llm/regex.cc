#include "tools/runner/llm/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tools/runner/base/clock.h"
#include "tools/runner/base/fail.h"
#include "tools/runner/llm/utf8.h"

namespace runner {
namespace {

// For one match, in KiB; PCRE2 would take 20 GB. And for all matches in a text, in milliseconds: one that
// takes too many steps is an error of PCRE2's.
constexpr uint32_t kMostMemory = 64 << 10;
constexpr double kMostTime = 30'000;

std::string words(int error) {
  PCRE2_UCHAR8 text[256] = {};
  pcre2_get_error_message_8(error, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

PCRE2_SPTR8 bytes(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR8>(text.data());
}

}  // namespace

struct Regex::Compiled {
  pcre2_code_8* code = nullptr;
  pcre2_match_data_8* data = nullptr;
  pcre2_match_context_8* context = nullptr;
};

Regex::Regex(const std::string& pattern, const std::string& where)
    : compiled_(std::make_unique<Compiled>()), where_(where) {
  int error = 0;
  PCRE2_SIZE place = 0;
  compiled_->code = pcre2_compile_8(
      bytes(pattern), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error, &place, nullptr);
  if (compiled_->code == nullptr) {
    fail(where + ": the regular expression \"" + pattern + "\" can't be read: " + words(error) +
         " at character " + std::to_string(place) + ".");
  }
  compiled_->data = pcre2_match_data_create_from_pattern_8(compiled_->code, nullptr);
  compiled_->context = pcre2_match_context_create_8(nullptr);
  if (compiled_->data == nullptr || compiled_->context == nullptr) {
    fail("there is no memory for a tokenizer.");
  }
  pcre2_set_heap_limit_8(compiled_->context, kMostMemory);
}

Regex::~Regex() {
  pcre2_match_context_free_8(compiled_->context);
  pcre2_match_data_free_8(compiled_->data);
  pcre2_code_free_8(compiled_->code);
}

std::vector<std::pair<size_t, size_t>> Regex::matches(std::string_view text) const {
  std::vector<std::pair<size_t, size_t>> found;
  const auto began = now();
  for (size_t start = 0; start < text.size();) {
    if (milliseconds_since(began) > kMostTime) {
      fail(where_ + ": a text can't be split: its regular expression takes too long.");
    }
    const int result = pcre2_match_8(
        compiled_->code,
        bytes(text),
        text.size(),
        start,
        PCRE2_NO_UTF_CHECK,
        compiled_->data,
        compiled_->context);
    if (result == PCRE2_ERROR_NOMATCH) {
      break;
    }
    if (result < 0) {
      fail(where_ + ": a text can't be split: " + words(result) + ".");
    }
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer_8(compiled_->data);
    if (ends[0] < ends[1]) {
      found.emplace_back(ends[0], ends[1]);
      start = ends[1];
    } else {
      start = ends[1] < text.size() ? ends[1] + character_size(text, ends[1]) : text.size();
    }
  }
  return found;
}

}  // namespace runner

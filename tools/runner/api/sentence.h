// Errors of the C interfaces' functions.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "tools/runner/api/executorch_app.h"
#include "tools/runner/base/process.h"

namespace runner {

// Without the middle of a long sentence: it begins with what is wrong, and ends with what to do. `error` may be nullptr.
inline void write_sentence(const std::string& sentence, executorch_app_error* error) {
  if (error == nullptr) {
    return;
  }
  constexpr char kGap[] = " [...] ";
  constexpr size_t kMost = sizeof(error->sentence) - 1;
  constexpr size_t kEnd = kMost / 4;
  std::string text = sentence;
  // Of a name in a damaged file.
  std::replace(text.begin(), text.end(), '\0', ' ');
  if (text.size() > kMost) {
    size_t start = kMost - kEnd - (sizeof(kGap) - 1);
    size_t end = sentence.size() - kEnd;
    // Whole characters of UTF-8.
    const auto is_inside = [&sentence](size_t at) { return (static_cast<unsigned char>(sentence[at]) & 0xC0) == 0x80; };
    while (start > 0 && is_inside(start)) {
      --start;
    }
    while (end < sentence.size() && is_inside(end)) {
      ++end;
    }
    text = text.substr(0, start) + kGap + text.substr(end);
  }
  memcpy(error->sentence, text.c_str(), text.size() + 1);
}

// Without allocating: memory may have run out.
inline void write_failure(const char* function, const char* what, executorch_app_error* error) {
  if (error != nullptr) {
    snprintf(
        error->sentence, sizeof(error->sentence),
        "%s: the call failed while %s: %s; a backend lacks its driver or an operator, or memory has run out.", function,
        last_stage(), what);
  }
}

// Returns `code`, one of an interface's enumeration.
template <typename Code>
Code fail(Code code, const std::string& sentence, executorch_app_error* error) {
  write_sentence(sentence, error);
  return code;
}

inline std::string missing_argument(const char* function, const char* argument) {
  return std::string(function) + ": " + argument + ": got NULL, expected a value.";
}

}  // namespace runner

// Regular expressions over UTF-8, by PCRE2: what tokenizers split text with.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace runner {

class Regex {
 public:
  // Ends the process with a sentence, which begins with `where`, if it is none.
  Regex(const std::string& pattern, const std::string& where);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  // Start and end of each match, from left to right; empty ones are left out. The text has to be UTF-8.
  std::vector<std::pair<size_t, size_t>> matches(std::string_view text) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
  std::string where_;
};

}  // namespace runner

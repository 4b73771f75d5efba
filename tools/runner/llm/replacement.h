// Parts of a tokenizer.json that both ways between text and tokens have.
#pragma once

#include <string>

#include "tools/runner/llm/json_fields.h"
#include "tools/runner/llm/text_split.h"

namespace runner {

// "Replace": one text in the place of another.
class Replacement {
 public:
  // Ends the process with a sentence if it replaces a regular expression.
  explicit Replacement(const JsonPart& json)
      : pattern_(json.at("pattern").text("String", "")), content_(json.text("content")) {
    if (pattern_.empty()) {
      json.fail_with("replaces a regular expression, which the runner doesn't");
    }
  }

  std::string apply(const std::string& text) const { return replaced(text, pattern_, content_); }

 private:
  std::string pattern_;
  std::string content_;
};

// "Metaspace": what stands for spaces, and where one is put before text.
struct MetaspaceForm {
  explicit MetaspaceForm(const JsonPart& json)
      : replacement(json.text("replacement", "\xE2\x96\x81")),
        scheme(json.text(
            "prepend_scheme", json.flag("add_prefix_space", true) ? "always" : "never")) {}

  std::string replacement;
  std::string scheme;
};

}  // namespace runner

// How a tokenizer changes text before splitting it, for example to Unicode's normal forms.
#pragma once

#include <memory>
#include <string>

#include "tools/runner/base/json.h"
#include "tools/runner/llm/matching.h"

namespace runner {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual Result<std::string> normalize(const std::string& text, Budget& budget) const = 0;

  // Whether the result may lack the first character of a text.
  virtual bool may_remove_start() const { return false; }
};

// From a tokenizer.json. An error if the runner does not support it.
Result<std::unique_ptr<Normalizer>> make_normalizer(const JsonValue& json, Budget& budget);

}  // namespace runner

// What a tokenizer does to text before it is cut, Unicode's normal forms among it.
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
};

// The one that a tokenizer.json has. An error if the runner doesn't have it.
Result<std::unique_ptr<Normalizer>> make_normalizer(const JsonValue& json, Budget& budget);

}  // namespace runner

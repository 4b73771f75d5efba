// What a tokenizer does to text before it is cut.
#pragma once

#include <memory>
#include <string>

#include "tools/runner/llm/json_fields.h"

namespace runner {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual std::string normalize(const std::string& text) const = 0;
};

// The one that a tokenizer.json has. Ends the process with a sentence if the runner doesn't have it.
std::unique_ptr<Normalizer> make_normalizer(const JsonPart& json);

}  // namespace runner

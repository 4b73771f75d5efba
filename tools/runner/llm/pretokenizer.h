// How a tokenizer cuts text into words, which are then tokens or parts of tokens each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/runner/llm/json_fields.h"

namespace runner {

class Pretokenizer {
 public:
  virtual ~Pretokenizer() = default;

  // Cuts each piece further. `is_start`: the first piece is where the text begins.
  virtual std::vector<std::string> cut(std::vector<std::string> pieces, bool is_start) const = 0;
};

// The one that a tokenizer.json has. Ends the process with a sentence if the runner doesn't have it.
std::unique_ptr<Pretokenizer> make_pretokenizer(const JsonPart& json);

}  // namespace runner

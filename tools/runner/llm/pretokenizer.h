// How a tokenizer cuts text into words, which are then tokens or parts of tokens each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/runner/base/json.h"
#include "tools/runner/llm/matching.h"

namespace runner {

class Pretokenizer {
 public:
  virtual ~Pretokenizer() = default;

  // Cuts each piece further. `is_start`: the first piece is where the text begins, before and after.
  virtual Status cut(std::vector<std::string>& pieces, bool& is_start, Budget& budget) const = 0;
};

// The one that a tokenizer.json has. An error if the runner doesn't have it.
Result<std::unique_ptr<Pretokenizer>> make_pretokenizer(const JsonValue& json, Budget& budget);

}  // namespace runner

// Splits text into words, which a tokenizer encodes separately.
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

  // Splits each piece further. `is_start`: the first piece is the start of the text.
  virtual Status cut(std::vector<std::string>& pieces, bool& is_start, Budget& budget) const = 0;

  // Tells whether it treats the start of a text in another way than the rest.
  virtual bool depends_on_start() const { return false; }
};

// From a tokenizer.json. An error if the runner does not support it.
Result<std::unique_ptr<Pretokenizer>> make_pretokenizer(const JsonValue& json, Budget& budget);

}  // namespace runner

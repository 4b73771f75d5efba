// What a tokenizer.json puts around the tokens of a text, such as BERT's [CLS] and [SEP]: its "post_processor".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/runner/base/json.h"
#include "tools/runner/base/result.h"

namespace runner {

// The tokens of one text, or of two, and for each token the text that it belongs to: 0 or 1.
struct MarkedTokens {
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> segments;
};

class SpecialTokens {
 public:
  // From the root of a tokenizer.json. An error if the runner does not support its "post_processor".
  static Result<SpecialTokens> read(const JsonValue& root);

  // The tokens of one text or two with the special tokens; other counts are an error.
  Result<MarkedTokens> mark(const std::vector<std::vector<uint32_t>>& texts) const;

 private:
  // Special tokens, or those of a text.
  struct Part {
    std::vector<uint32_t> special;
    int text = -1;  // 0 or 1; -1: special tokens.
    uint32_t segment = 0;
  };

  Status read_processor(const JsonValue& json);
  Status read_template(const JsonValue& json);
  Status read_ends(const JsonValue& json, bool is_roberta);
  static Result<std::vector<Part>> read_parts(const JsonValue& json, const char* key);

  std::string where_;
  bool is_known_ = false;
  std::vector<Part> single_ = {{{}, 0, 0}};
  std::vector<Part> pair_ = {{{}, 0, 0}, {{}, 1, 1}};
};

}  // namespace runner

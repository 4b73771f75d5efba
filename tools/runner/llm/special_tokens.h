// Tokens that a tokenizer.json puts around those of a text, such as BERT's [CLS] and [SEP], and limits of length: its
// "post_processor", "truncation" and "padding".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/runner/base/json.h"
#include "tools/runner/base/result.h"

namespace runner {

// The tokens of one text, or of two; for each token the text that it belongs to, 0 or 1, and 0 if it is padding, else 1.
struct MarkedTokens {
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> segments;
  std::vector<uint32_t> mask;
};

class SpecialTokens {
 public:
  // From the root of a tokenizer.json. An error if the runner does not support its parts.
  static Result<SpecialTokens> read(const JsonValue& root);

  // The tokens of one text or two with the special tokens, cut and padded; other counts are an error.
  Result<MarkedTokens> mark(std::vector<std::vector<uint32_t>> texts) const;

 private:
  // Special tokens, or those of a text.
  struct Part {
    std::vector<uint32_t> special;
    int text = -1;  // 0 or 1; -1: special tokens.
    uint32_t segment = 0;
  };

  // The text that loses tokens if there are more than `most`.
  enum class Shortens { kLongest, kFirst, kSecond };

  struct Truncation {
    size_t most = 0;
    Shortens shortens = Shortens::kLongest;
    bool at_end = true;
  };

  struct Padding {
    size_t least = 0;
    size_t multiple = 1;
    uint32_t token = 0;
    uint32_t segment = 0;
    bool at_end = true;
  };

  // Counts the special tokens.
  static size_t special_of(const std::vector<Part>& parts);
  Status read_truncation(const JsonValue& json);
  Status read_padding(const JsonValue& json);
  Status read_processor(const JsonValue& json);
  Status read_template(const JsonValue& json);
  Status read_ends(const JsonValue& json, bool is_roberta);
  static Result<std::vector<Part>> read_parts(const JsonValue& json, const char* key);
  Status truncate(std::vector<std::vector<uint32_t>>& texts, const std::vector<Part>& parts) const;
  void pad(MarkedTokens& marked) const;

  std::string where_;
  bool is_known_ = false;
  std::optional<Truncation> truncation_;
  std::optional<Padding> padding_;
  std::vector<Part> single_ = {{{}, 0, 0}};
  std::vector<Part> pair_ = {{{}, 0, 0}, {{}, 1, 1}};
};

}  // namespace runner

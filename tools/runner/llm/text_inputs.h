// --text: a text, or two, as the inputs of a program that reads tokens, such as an encoder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <executorch/runtime/executor/method_meta.h>

#include "tools/runner/llm/special_tokens.h"
#include "tools/runner/llm/tokenizer.h"
#include "tools/runner/tensors/array.h"

namespace runner {

// Makes inputs of texts.
struct TextReader {
  // An error if the file is not a tokenizer.json, or has unsupported parts.
  static Result<TextReader> read(const std::string& path, bool parse_special);

  // One to three inputs int64 (1, n): the tokens, with special tokens around the texts; ones, the mask; and the text
  // that each token belongs to. An error if the method, whose `title` is for errors, takes other inputs or fewer tokens.
  Result<std::vector<Array>> inputs(
      const std::vector<std::string>& texts,
      const std::string& title,
      const executorch::runtime::MethodMeta& method) const;

  std::unique_ptr<Tokenizer> tokenizer;
  SpecialTokens special;
  bool parse_special = false;  // Special tokens in texts are tokens, not text.
};

}  // namespace runner

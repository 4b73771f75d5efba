// A tokenizer in Hugging Face's format, tokenizer.json: byte-pair encodings.
//
// No library: ExecuTorch's C++ tokenizers (pytorch-tokenizers 1.0.1, built on PCRE2) gave other tokens than
// Hugging Face's for 65 of 381 texts with the pre-tokenizers of Llama 3 and of Qwen 2, refused Llama 2's and
// Metaspace, ignored the strip flags of added tokens, and need exceptions. Merging and cutting are done here,
// regular expressions are PCRE2's, JSON is nlohmann's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/runner/llm/added_tokens.h"
#include "tools/runner/llm/bpe.h"
#include "tools/runner/llm/normalizer.h"
#include "tools/runner/llm/pretokenizer.h"
#include "tools/runner/llm/token_decoder.h"

namespace runner {

class Tokenizer {
 public:
  // Ends the process with a sentence if the file is no tokenizer.json, or has parts that the runner
  // doesn't have.
  explicit Tokenizer(const std::string& path);

  // Without the special tokens that the file may add at the ends. The text has to be UTF-8.
  std::vector<uint32_t> encode(const std::string& text) const;

  // Bytes of what the tokens say, without special tokens; the last character may be cut off.
  std::string decode(const std::vector<uint32_t>& tokens) const;

 private:
  std::unique_ptr<AddedTokens> added_;
  std::unique_ptr<Normalizer> normalizer_;      // nullptr: none.
  std::unique_ptr<Pretokenizer> pretokenizer_;  // nullptr: none.
  std::unique_ptr<Bpe> bpe_;
  std::unique_ptr<TokenDecoder> decoder_;  // nullptr: none.
};

}  // namespace runner

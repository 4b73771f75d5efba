// A tokenizer in Hugging Face's format, tokenizer.json: byte-pair encodings.
//
// No library: ExecuTorch's C++ tokenizers (pytorch-tokenizers 1.0.1, built on PCRE2) gave other tokens than
// Hugging Face's for 65 of 381 texts with the pre-tokenizers of Llama 3 and of Qwen 2, refused Llama 2's and
// Metaspace, ignored the strip flags of added tokens, and need exceptions. Merging and cutting are done here,
// regular expressions are Oniguruma's, normal forms QuickJS's, JSON is nlohmann's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/runner/base/result.h"
#include "tools/runner/llm/added_tokens.h"
#include "tools/runner/llm/bpe.h"
#include "tools/runner/llm/normalizer.h"
#include "tools/runner/llm/pretokenizer.h"
#include "tools/runner/llm/token_decoder.h"

namespace runner {

// A part of a text to encode.
struct TextPart {
  std::string text;
  // By a user: special tokens in it are text. Else a template's, or a whole prompt with its tokens.
  bool is_said = false;
};

class Tokenizer {
 public:
  // An error if the file is no tokenizer.json, or has parts that the runner doesn't have.
  static Result<std::unique_ptr<Tokenizer>> read(const std::string& path);

  // The tokens of one text, without the special tokens that the file may add at the ends. An error if the
  // text is not UTF-8, or takes too much time or memory.
  Result<std::vector<uint32_t>> encode(const std::vector<TextPart>& parts) const;

  // What the tokens say, without special tokens.
  Result<std::string> decode(const std::vector<uint32_t>& tokens) const;

 private:
  friend class Decoding;

  Status normalize(Piece& piece, Budget& budget) const;

  std::string path_;
  std::unique_ptr<AddedTokens> added_;
  std::unique_ptr<Normalizer> normalizer_;      // nullptr: none.
  std::unique_ptr<Pretokenizer> pretokenizer_;  // nullptr: none.
  std::unique_ptr<Bpe> bpe_;
  std::unique_ptr<TokenDecoder> decoder_;  // nullptr: none.
};

// The text of tokens that come one after the other: that of `Tokenizer::decode`, in parts.
class Decoding {
 public:
  // `tokenizer` has to live as long.
  explicit Decoding(const Tokenizer& tokenizer);
  ~Decoding();
  Decoding(const Decoding&) = delete;
  Decoding& operator=(const Decoding&) = delete;

  // What the token adds, in whole characters; may be "": the next one may be needed to know.
  Result<std::string> add(uint32_t token);

  // What is left.
  Result<std::string> finish();

 private:
  class Text;

  const Tokenizer& tokenizer_;
  Budget budget_;
  std::unique_ptr<Text> text_;
  std::unique_ptr<TokenSink> steps_;  // nullptr: none.
};

}  // namespace runner

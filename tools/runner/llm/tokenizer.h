// A tokenizer in Hugging Face's format, tokenizer.json: byte-pair encodings, WordPiece and Unigram.
//
// Why not a library: ExecuTorch's C++ tokenizers (pytorch-tokenizers 1.5.0, built on PCRE2) give other tokens than
// Hugging Face's where spaces stand beside added tokens that take them (lstrip, rstrip): for 16 of 382 texts with the
// pre-tokenizers of GPT-2, Llama 3 and Qwen 2. They refuse Metaspace, BERT's normalizer and Unigram, and need
// exceptions. tests/integration/runner/test_upstream_tokenizers.py fails on the day that this is no longer so; then
// the files of this folder but the chat's can go. Merging and splitting are implemented here; Oniguruma matches regular
// expressions, QuickJS's library computes normal forms, nlohmann's parses JSON.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/runner/base/result.h"
#include "tools/runner/llm/added_tokens.h"
#include "tools/runner/llm/normalizer.h"
#include "tools/runner/llm/pretokenizer.h"
#include "tools/runner/llm/token_decoder.h"
#include "tools/runner/llm/token_model.h"

namespace runner {

// A part of a text to encode.
struct TextPart {
  std::string text;
  // A user's: special tokens in it are text. Otherwise a template's text, or a raw prompt.
  bool is_user_text = false;
};

class Tokenizer {
 public:
  // The values of a tokenizer.json; an error if the file is none.
  static Result<JsonValue> read_file(const std::string& path);

  // An error if the file has unsupported parts. With `has_lengths`, SpecialTokens cuts and pads as the file says;
  // without, such a file is an error.
  static Result<std::unique_ptr<Tokenizer>> read(const JsonValue& root, bool has_lengths = false);

  // The tokens of one text, without the special tokens that SpecialTokens adds around it. An error if the
  // text is not UTF-8, or needs too much time or memory.
  Result<std::vector<uint32_t>> encode(const std::vector<TextPart>& parts) const;

  // The text of a token that is found before other steps; "": it is none.
  std::string added_text(uint32_t token) const;

  // The text of the tokens, without special tokens.
  Result<std::string> decode(const std::vector<uint32_t>& tokens) const;

 private:
  friend class Decoding;

  Status normalize(Piece& piece, Budget& budget) const;

  std::string path_;
  std::unique_ptr<AddedTokens> added_;
  std::unique_ptr<Normalizer> normalizer_;      // nullptr: none.
  std::unique_ptr<Pretokenizer> pretokenizer_;  // nullptr: none.
  std::unique_ptr<TokenModel> model_;
  std::unique_ptr<TokenDecoder> decoder_;  // nullptr: none.
};

// The text of tokens that arrive one by one: that of `Tokenizer::decode`, in parts.
class Decoding {
 public:
  // `tokenizer` must outlive this object.
  explicit Decoding(const Tokenizer& tokenizer);
  ~Decoding();
  Decoding(const Decoding&) = delete;
  Decoding& operator=(const Decoding&) = delete;

  // The text that the token adds, in whole characters; may be "" until the next token.
  Result<std::string> add(uint32_t token);

  // The rest of the text.
  Result<std::string> finish();

 private:
  class Text;

  const Tokenizer& tokenizer_;
  Budget budget_;
  std::unique_ptr<Text> text_;
  std::unique_ptr<TokenSink> steps_;  // nullptr: none.
};

}  // namespace runner

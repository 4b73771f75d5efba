#include "tools/runner/llm/tokenizer.h"

#include "tools/runner/base/fail.h"
#include "tools/runner/base/json_depth.h"
#include "tools/runner/base/mapped_file.h"

namespace runner {

using nlohmann::json;

Tokenizer::Tokenizer(const std::string& path) {
  const MappedFile file(path, "a tokenizer");
  const std::string_view text = file.text();
  if (is_nested_too_deeply(text)) {
    fail(path + " is no tokenizer.json of Hugging Face's: it is nested too deeply.");
  }
  const json value = json::parse(text.begin(), text.end(), nullptr, false);
  if (!value.is_object()) {
    fail(path + " is no tokenizer.json of Hugging Face's: it is no JSON object.");
  }
  const JsonPart root(value, path);
  if (root.has("normalizer")) {
    normalizer_ = make_normalizer(root.at("normalizer"));
  }
  const json none = json::array();
  added_ = std::make_unique<AddedTokens>(
      root.has("added_tokens") ? root.at("added_tokens") : JsonPart(none, path), normalizer_.get());
  if (root.has("pre_tokenizer")) {
    pretokenizer_ = make_pretokenizer(root.at("pre_tokenizer"));
  }
  bpe_ = std::make_unique<Bpe>(root.at("model"));
  if (root.has("decoder")) {
    decoder_ = make_token_decoder(root.at("decoder"));
  }
}

std::vector<uint32_t> Tokenizer::encode(const std::string& text) const {
  std::vector<Piece> pieces = added_->cut({{text, nullptr, true}}, /*is_normalized=*/false);
  for (Piece& piece : pieces) {
    if (piece.token == nullptr && normalizer_ != nullptr) {
      piece.text = normalizer_->normalize(piece.text);
    }
  }
  std::vector<uint32_t> tokens;
  for (const Piece& piece : added_->cut(pieces, /*is_normalized=*/true)) {
    if (piece.token != nullptr) {
      tokens.push_back(piece.token->id);
      continue;
    }
    std::vector<std::string> words = {piece.text};
    if (pretokenizer_ != nullptr) {
      words = pretokenizer_->cut(std::move(words), piece.is_start);
    }
    for (const std::string& word : words) {
      bpe_->encode(word, tokens);
    }
  }
  return tokens;
}

std::string Tokenizer::decode(const std::vector<uint32_t>& tokens) const {
  std::vector<std::string> texts;
  for (const uint32_t id : tokens) {
    const AddedToken* added = added_->find(id);
    if (added != nullptr) {
      if (!added->is_special) {
        texts.push_back(added->wanted);
      }
      continue;
    }
    const std::string* token = bpe_->token_of(id);
    texts.push_back(token == nullptr ? "" : *token);
  }
  if (decoder_ != nullptr) {
    decoder_->decode(texts);
  }
  std::string all;
  for (size_t i = 0; i < texts.size(); ++i) {
    // As the format has it: without a decoder tokens are words.
    all += (decoder_ == nullptr && i > 0 ? " " : "") + texts[i];
  }
  return all;
}

}  // namespace runner

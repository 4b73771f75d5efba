#include "tools/runner/llm/tokenizer.h"

#include <utility>

#include "tools/runner/base/files.h"
#include "tools/runner/base/json.h"
#include "tools/runner/base/text.h"

namespace runner {
namespace {

// Twice the largest known file; parsing takes ten to twenty times the memory.
constexpr size_t kMaxBytes = 64 << 20;

}  // namespace

Result<JsonValue> Tokenizer::read_file(const std::string& path) {
  const MappedFile file = TRY(MappedFile::open(path, "a tokenizer"));
  const std::string_view text = file.text();
  if (text.size() > kMaxBytes) {
    return error(path + " is not a tokenizer.json that the runner reads: got " + std::to_string(text.size()) +
                 " bytes, expected at most " + std::to_string(kMaxBytes) + ".");
  }
  Result<nlohmann::json> value = parse_json(text);
  if (!value.ok()) {
    return error(path + " is not Hugging Face's tokenizer.json: " + value.sentence() + ".");
  }
  return JsonValue::of(value.take_value(), path, text.size());
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::read(const JsonValue& root, bool has_lengths) {
  const std::string& path = root.where();
  auto tokenizer = std::make_unique<Tokenizer>();
  tokenizer->path_ = path;
  if (!has_lengths) {
    for (const char* key : {"padding", "truncation"}) {
      if (root.has(key)) {
        return error(path + " has a \"" + key + "\", which would change the tokens of a conversation. The runner has it "
                     "for --text only, and transformers ignores it in chats: set it to null.");
      }
    }
  }
  Budget& budget = root.budget();
  if (root.has("normalizer")) {
    tokenizer->normalizer_ = TRY(make_normalizer(TRY(root.at("normalizer")), budget));
  }
  tokenizer->model_ = TRY(make_token_model(TRY(root.at("model"))));
  tokenizer->added_ = TRY(AddedTokens::read(root, tokenizer->normalizer_.get(), *tokenizer->model_));
  if (root.has("pre_tokenizer")) {
    const JsonValue pretokenizer = TRY(root.at("pre_tokenizer"));
    tokenizer->pretokenizer_ = TRY(make_pretokenizer(pretokenizer, budget));
    const Normalizer* normalizer = tokenizer->normalizer_.get();
    if (normalizer != nullptr && normalizer->may_remove_start() && tokenizer->pretokenizer_->depends_on_start()) {
      return pretokenizer.error_with(
          "has the prepend_scheme \"first\" behind a normalizer that may remove the start of a text, which the "
          "runner does not support"
      );
    }
  }
  if (root.has("decoder")) {
    tokenizer->decoder_ = TRY(make_token_decoder(TRY(root.at("decoder")), budget));
  }
  return tokenizer;
}

Status Tokenizer::normalize(Piece& piece, Budget& budget) const {
  SourcedText text = {std::move(piece.text), {}};
  // The end of user text matters to special tokens only.
  if (added_->has_normalized_special()) {
    text.said = std::move(piece.said);
  }
  TRY(normalizer_->normalize(text, budget));
  piece.text = std::move(text.text);
  piece.said = std::move(text.said);
  return {};
}

Result<std::vector<uint32_t>> Tokenizer::encode(const std::vector<TextPart>& parts) const {
  Piece whole;
  whole.is_start = true;
  for (const TextPart& part : parts) {
    const size_t start = whole.text.size();
    whole.text += part.text;
    if (part.is_user_text && !part.text.empty()) {
      whole.said.push_back({start, whole.text.size()});
    }
  }
  if (!is_utf8(whole.text)) {
    return error(path_ + ": a text is not UTF-8.");
  }
  Budget budget = text_budget(path_, whole.text.size());
  TRY(make_text(whole.text.size(), budget));
  std::vector<Piece> pieces = TRY(added_->cut({whole}, /*is_normalized=*/false, budget));
  for (Piece& piece : pieces) {
    if (piece.token == nullptr && normalizer_ != nullptr) {
      TRY(normalize(piece, budget));
    }
  }
  std::vector<uint32_t> tokens;
  for (const Piece& piece : TRY(added_->cut(pieces, /*is_normalized=*/true, budget))) {
    if (piece.token != nullptr) {
      tokens.push_back(piece.token->id);
      continue;
    }
    std::vector<std::string> words = {piece.text};
    if (pretokenizer_ != nullptr) {
      bool is_start = piece.is_start;
      TRY(pretokenizer_->cut(words, is_start, budget));
    }
    for (const std::string& word : words) {
      TRY(budget.spend(word.size()));
      TRY(model_->encode(word, tokens, budget));
    }
  }
  return tokens;
}

std::string Tokenizer::added_text(uint32_t token) const {
  const AddedToken* const added = added_->find(token);
  return added == nullptr ? "" : added->content;
}

Result<std::string> Tokenizer::decode(const std::vector<uint32_t>& tokens) const {
  Decoding decoding(*this);
  std::string text;
  for (const uint32_t token : tokens) {
    text += TRY(decoding.add(token));
  }
  return text + TRY(decoding.finish());
}

// Receives the output of the last step.
class Decoding::Text final : public TokenSink {
 public:
  Text(std::string_view between, Budget& budget) : between_(between), budget_(budget) {}

  Status add(std::string_view text) override {
    if (is_next_) {
      text_ += between_;
      is_next_ = false;
    }
    size_ += text.size();
    TRY(check_text(size_, budget_));
    TRY(budget_.spend(text.size()));
    text_ += text;
    return {};
  }

  Status end_token() override {
    is_next_ = true;
    return {};
  }

  Status finish() override { return {}; }

  std::string take() { return std::exchange(text_, ""); }

 private:
  std::string_view between_;
  Budget& budget_;
  bool is_next_ = false;
  size_t size_ = 0;
  std::string text_;
};

Decoding::Decoding(const Tokenizer& tokenizer) : tokenizer_(tokenizer), budget_(text_budget(tokenizer.path_, 0)) {
  // As in Hugging Face's format: without a decoder, tokens are words.
  text_ = std::make_unique<Text>(tokenizer.decoder_ == nullptr ? " " : "", budget_);
  if (tokenizer.decoder_ != nullptr) {
    steps_ = tokenizer.decoder_->start(*text_, budget_);
  }
}

Decoding::~Decoding() = default;

Result<std::string> Decoding::add(uint32_t token) {
  const AddedToken* added = tokenizer_.added_->find(token);
  const std::string* text = added != nullptr ? &added->searched : tokenizer_.model_->token_of(token);
  // A token's share of the steps, even if its text is short.
  constexpr uint64_t kLeastBytes = 64;
  budget_.grow(kLeastBytes + (text != nullptr ? text->size() : 0));
  if (text != nullptr && !tokenizer_.added_->is_special(*text)) {
    TokenSink& first = steps_ != nullptr ? *steps_ : *text_;
    TRY(first.add(*text));
    TRY(first.end_token());
  }
  return text_->take();
}

Result<std::string> Decoding::finish() {
  TokenSink& first = steps_ != nullptr ? *steps_ : *text_;
  TRY(first.finish());
  return text_->take();
}

}  // namespace runner

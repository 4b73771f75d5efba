#include "tools/runner/llm/token_decoder.h"

#include <cstdlib>

#include "tools/runner/llm/byte_level.h"
#include "tools/runner/llm/replacement.h"
#include "tools/runner/llm/text_split.h"

namespace runner {
namespace {

using Tokens = std::vector<std::string>;

class ByteLevelDecoder final : public TokenDecoder {
 public:
  void decode(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      token = from_byte_level(token);
    }
  }
};

class ReplaceDecoder final : public TokenDecoder {
 public:
  explicit ReplaceDecoder(const JsonPart& json) : replacement_(json) {}

  void decode(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      token = replacement_.apply(token);
    }
  }

 private:
  Replacement replacement_;
};

// "<0x41>" is the byte 0x41.
class ByteFallbackDecoder final : public TokenDecoder {
 public:
  void decode(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      char* end = nullptr;
      const bool has_form = token.size() == 6 && token.compare(0, 3, "<0x") == 0 && token[5] == '>';
      const unsigned long byte = has_form ? strtoul(token.c_str() + 3, &end, 16) : 0;
      if (has_form && end == token.c_str() + 5) {
        token = std::string(1, static_cast<char>(byte));
      }
    }
  }
};

class FuseDecoder final : public TokenDecoder {
 public:
  void decode(Tokens& tokens) const override {
    std::string all;
    for (const std::string& token : tokens) {
      all += token;
    }
    tokens = {all};
  }
};

class StripDecoder final : public TokenDecoder {
 public:
  explicit StripDecoder(const JsonPart& json)
      : content_(json.text("content")), start_(count(json, "start")), stop_(count(json, "stop")) {}

  void decode(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      const size_t size = content_.size();
      for (size_t i = 0; i < start_ && size > 0 && token.compare(0, size, content_) == 0; ++i) {
        token.erase(0, size);
      }
      for (size_t i = 0; i < stop_ && size > 0 && token.size() >= size &&
           token.compare(token.size() - size, size, content_) == 0;
           ++i) {
        token.erase(token.size() - size);
      }
    }
  }

 private:
  static size_t count(const JsonPart& json, const char* key) {
    const JsonPart part = json.at(key);
    if (!part.value().is_number_unsigned()) {
      part.fail_with("is no number");
    }
    return part.value().get<size_t>();
  }

  std::string content_;
  size_t start_;
  size_t stop_;
};

class MetaspaceDecoder final : public TokenDecoder {
 public:
  explicit MetaspaceDecoder(const JsonPart& json) : form_(json) {
    if (form_.replacement.empty()) {
      json.fail_with("has no replacement");
    }
  }

  void decode(Tokens& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      // Hugging Face's drops all in the first token, not only the one that was put before the text.
      const bool drops = i == 0 && form_.scheme != "never";
      tokens[i] = replaced(tokens[i], form_.replacement, drops ? "" : " ");
    }
  }

 private:
  MetaspaceForm form_;
};

class SequenceDecoder final : public TokenDecoder {
 public:
  explicit SequenceDecoder(const JsonPart& json) {
    for (const JsonPart& part : json.at("decoders").items()) {
      parts_.push_back(make_token_decoder(part));
    }
  }

  void decode(Tokens& tokens) const override {
    for (const auto& part : parts_) {
      part->decode(tokens);
    }
  }

 private:
  std::vector<std::unique_ptr<TokenDecoder>> parts_;
};

}  // namespace

std::unique_ptr<TokenDecoder> make_token_decoder(const JsonPart& json) {
  const std::string type = json.text("type");
  if (type == "Sequence") {
    return std::make_unique<SequenceDecoder>(json);
  }
  if (type == "ByteLevel") {
    return std::make_unique<ByteLevelDecoder>();
  }
  if (type == "Replace") {
    return std::make_unique<ReplaceDecoder>(json);
  }
  if (type == "ByteFallback") {
    return std::make_unique<ByteFallbackDecoder>();
  }
  if (type == "Fuse") {
    return std::make_unique<FuseDecoder>();
  }
  if (type == "Strip") {
    return std::make_unique<StripDecoder>(json);
  }
  if (type == "Metaspace") {
    return std::make_unique<MetaspaceDecoder>(json);
  }
  json.fail_with("is of type \"" + type + "\", which the runner doesn't have");
}

}  // namespace runner

#include "tools/runner/llm/token_decoder.h"

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tools/runner/base/text.h"
#include "tools/runner/llm/matching.h"

namespace runner {
namespace {

// More than any tokenizer has. Each step calls the next one, and threads of phones have small stacks.
constexpr size_t kMaxSteps = 64;

// A step that passes on text without changes.
class Step : public TokenSink {
 public:
  explicit Step(TokenSink& next) : next_(next) {}

  Status add(std::string_view text) override { return next_.add(text); }
  Status end_token() override { return next_.end_token(); }
  Status finish() override { return next_.finish(); }

 protected:
  TokenSink& next_;
};

// Kind is created once from a part of the file, its Sink for each text.
template <typename Kind>
class Decoder final : public TokenDecoder {
 public:
  explicit Decoder(Kind kind) : kind_(std::move(kind)) {}

  std::unique_ptr<TokenSink> start(TokenSink& next, Budget& budget) const override {
    return std::make_unique<typename Kind::Sink>(kind_, next, budget);
  }

 private:
  Kind kind_;
};

// All tokens are one text: the bytes of a character may be in several tokens.
struct ByteLevel {
  class Sink final : public Step {
   public:
    Sink(const ByteLevel&, TokenSink& next, Budget&) : Step(next) {}

    Status add(std::string_view text) override {
      token_ += text;
      return {};
    }

    Status end_token() override {
      bytes_ += from_byte_level(token_);
      token_.clear();
      const size_t whole = without_cut_end(bytes_).size();
      TRY(next_.add(repaired(std::string_view(bytes_).substr(0, whole))));
      bytes_.erase(0, whole);
      return {};
    }

    Status finish() override {
      TRY(next_.add(repaired(bytes_)));
      TRY(next_.end_token());
      return next_.finish();
    }

   private:
    std::string token_;
    std::string bytes_;
  };
};

struct Replace {
  explicit Replace(Replacement replaces) : replacement(std::move(replaces)) {
    // For each prefix of the pattern: the longest shorter prefix that it ends with.
    const std::string& pattern = replacement.pattern;
    shorter.resize(pattern.size() + 1);
    for (size_t i = 1, size = 0; i < pattern.size(); ++i) {
      while (size > 0 && pattern[i] != pattern[size]) {
        size = shorter[size];
      }
      size += pattern[i] == pattern[size] ? 1 : 0;
      shorter[i + 1] = size;
    }
  }

  class Sink final : public Step {
   public:
    Sink(const Replace& kind, TokenSink& next, Budget& budget)
        : Step(next), kind_(kind), budget_(budget) {}

    Status add(std::string_view text) override {
      const std::string& pattern = kind_.replacement.pattern;
      std::string result;
      for (const char byte : text) {
        while (seen_ > 0 && byte != pattern[seen_]) {
          const size_t size = kind_.shorter[seen_];
          result.append(pattern, 0, seen_ - size);
          seen_ = size;
        }
        if (byte != pattern[seen_]) {
          result += byte;
        } else if (++seen_ == pattern.size()) {
          TRY(check_text(result.size() + kind_.replacement.content.size(), budget_));
          TRY(budget_.spend(kind_.replacement.content.size()));
          result += kind_.replacement.content;
          seen_ = 0;
        }
      }
      return next_.add(result);
    }

    Status end_token() override {
      TRY(next_.add(std::string_view(kind_.replacement.pattern).substr(0, seen_)));
      seen_ = 0;
      return next_.end_token();
    }

   private:
    const Replace& kind_;
    Budget& budget_;
    size_t seen_ = 0;  // Bytes of the pattern at the end of the text so far.
  };

  Replacement replacement;
  std::vector<size_t> shorter;
};

// "<0x41>" is the byte 0x41. A sequence of such tokens is one text, or, if that is not UTF-8, a
// replacement character for each.
struct ByteFallback {
  class Sink final : public Step {
   public:
    Sink(const ByteFallback&, TokenSink& next, Budget&) : Step(next) {}

    Status add(std::string_view text) override {
      token_ += text;
      return {};
    }

    Status end_token() override {
      const int byte = byte_of(token_);
      if (byte >= 0) {
        bytes_ += static_cast<char>(byte);
      } else {
        TRY(end_bytes());
        TRY(next_.add(token_));
        TRY(next_.end_token());
      }
      token_.clear();
      return {};
    }

    Status finish() override {
      TRY(end_bytes());
      return next_.finish();
    }

   private:
    static int digit(char c) {
      return c >= '0' && c <= '9' ? c - '0'
          : c >= 'a' && c <= 'f'  ? c - 'a' + 10
          : c >= 'A' && c <= 'F'  ? c - 'A' + 10
                                  : -1;
    }

    // -1: the token is not a byte.
    static int byte_of(const std::string& token) {
      if (token.size() != 6 || token.compare(0, 3, "<0x") != 0 || token[5] != '>') {
        return -1;
      }
      // As Rust parses numbers.
      const int high = token[3] == '+' ? 0 : digit(token[3]), low = digit(token[4]);
      return high < 0 || low < 0 ? -1 : high * 16 + low;
    }

    Status end_bytes() {
      if (is_utf8(bytes_)) {
        if (!bytes_.empty()) {
          TRY(next_.add(bytes_));
          TRY(next_.end_token());
        }
      } else {
        for (size_t i = 0; i < bytes_.size(); ++i) {
          TRY(next_.add(repaired("\xFF")));
          TRY(next_.end_token());
        }
      }
      bytes_.clear();
      return {};
    }

    std::string token_;
    std::string bytes_;
  };
};

// Joins all tokens.
struct Fuse {
  class Sink final : public Step {
   public:
    Sink(const Fuse&, TokenSink& next, Budget&) : Step(next) {}

    Status end_token() override { return {}; }

    Status finish() override {
      TRY(next_.end_token());
      return next_.finish();
    }
  };
};

// Strips a character from the start and the end of tokens, at most N times.
struct Strip {
  class Sink final : public Step {
   public:
    Sink(const Strip& kind, TokenSink& next, Budget& budget)
        : Step(next), kind_(kind), budget_(budget) {}

    Status add(std::string_view text) override {
      std::string result;
      for (size_t i = 0; i < text.size();) {
        const size_t size = character_size(text, i);
        const std::string_view character = text.substr(i, size);
        i += size;
        const bool is_it = character == kind_.content;
        if (is_it && dropped_ < kind_.start && !is_inside_) {
          ++dropped_;
          continue;
        }
        is_inside_ = true;
        if (is_it && held_ < kind_.stop) {
          ++held_;
          continue;
        }
        if (!is_it) {
          TRY(give(held_, result));
          held_ = 0;
        }
        result += character;
      }
      return next_.add(result);
    }

    Status end_token() override {
      held_ = 0;
      dropped_ = 0;
      is_inside_ = false;
      return next_.end_token();
    }

   private:
    Status give(size_t times, std::string& result) {
      TRY(make_text(times * kind_.content.size(), budget_));
      for (size_t i = 0; i < times; ++i) {
        result += kind_.content;
      }
      return {};
    }

    const Strip& kind_;
    Budget& budget_;
    size_t dropped_ = 0;
    size_t held_ = 0;  // At the end of the text so far: they may be the end of the token.
    bool is_inside_ = false;
  };

  std::string content;
  size_t start;
  size_t stop;
};

struct Metaspace {
  class Sink final : public Step {
   public:
    Sink(const Metaspace& kind, TokenSink& next, Budget& budget)
        : Step(next), form_(kind.form), budget_(budget) {}

    Status add(std::string_view text) override {
      // Hugging Face's drops all in the first token, not only the inserted one.
      const bool drops = is_first_ && form_.scheme != "never";
      const std::string result =
          TRY(replaced(std::string(text), form_.replacement, drops ? "" : " ", budget_));
      return next_.add(result);
    }

    Status end_token() override {
      is_first_ = false;
      return next_.end_token();
    }

   private:
    const MetaspaceForm& form_;
    Budget& budget_;
    bool is_first_ = true;
  };

  MetaspaceForm form;
};

// Words have spaces between them; pieces of a word begin with a prefix.
struct WordPiece {
  class Sink final : public Step {
   public:
    Sink(const WordPiece& kind, TokenSink& next, Budget& budget)
        : Step(next), kind_(kind), budget_(budget) {}

    Status add(std::string_view text) override {
      TRY(check_text(token_.size() + text.size(), budget_));
      token_ += text;
      return {};
    }

    Status end_token() override {
      if (!is_first_) {
        const bool continues = token_.compare(0, kind_.prefix.size(), kind_.prefix) == 0;
        token_ = continues ? token_.substr(kind_.prefix.size()) : " " + token_;
      }
      is_first_ = false;
      if (kind_.cleans) {
        TRY(clean());
      }
      TRY(next_.add(token_));
      token_.clear();
      return next_.end_token();
    }

   private:
    Status clean() {
      constexpr std::pair<const char*, const char*> kCleaned[] = {
          {" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"}, {" 'm", "'m"},
          {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
      };
      for (const auto& [from, to] : kCleaned) {
        token_ = TRY(replaced(token_, from, to, budget_));
      }
      return {};
    }

    const WordPiece& kind_;
    Budget& budget_;
    std::string token_;
    bool is_first_ = true;
  };

  std::string prefix;
  bool cleans;
};

struct Sequence {
  class Sink final : public TokenSink {
   public:
    Sink(const Sequence& kind, TokenSink& next, Budget& budget) : first_(&next) {
      for (auto part = kind.parts.rbegin(); part != kind.parts.rend(); ++part) {
        steps_.push_back((*part)->start(*first_, budget));
        first_ = steps_.back().get();
      }
    }

    Status add(std::string_view text) override { return first_->add(text); }
    Status end_token() override { return first_->end_token(); }
    Status finish() override { return first_->finish(); }

   private:
    std::vector<std::unique_ptr<TokenSink>> steps_;
    TokenSink* first_;
  };

  std::vector<std::unique_ptr<TokenDecoder>> parts;
};

template <typename Kind>
std::unique_ptr<TokenDecoder> make(Kind kind) {
  return std::make_unique<Decoder<Kind>>(std::move(kind));
}

Result<std::unique_ptr<TokenDecoder>> make_strip(const JsonValue& json) {
  const std::string content = TRY(json.text("content"));
  if (content.empty() || character_size(content, 0) != content.size()) {
    return json.error_with("has a content that is not one character");
  }
  const uint64_t start = TRY(json.number("start", UINT32_MAX));
  const uint64_t stop = TRY(json.number("stop", UINT32_MAX));
  return make(Strip{content, static_cast<size_t>(start), static_cast<size_t>(stop)});
}

// A step, which is no sequence.
Result<std::unique_ptr<TokenDecoder>> make_step(const JsonValue& json) {
  const std::string type = TRY(json.text("type"));
  if (type == "ByteLevel") {
    return make(ByteLevel{});
  }
  if (type == "Replace") {
    return make(Replace(TRY(Replacement::read(json))));
  }
  if (type == "ByteFallback") {
    return make(ByteFallback{});
  }
  if (type == "Fuse") {
    return make(Fuse{});
  }
  if (type == "Strip") {
    return make_strip(json);
  }
  if (type == "WordPiece") {
    const std::string prefix = TRY(json.text("prefix", "##"));
    return make(WordPiece{prefix, TRY(json.flag("cleanup", true))});
  }
  if (type == "Metaspace") {
    return make(Metaspace{TRY(MetaspaceForm::read(json))});
  }
  return json.error_with("is of type \"" + type + "\", which the runner does not support");
}

}  // namespace

Result<std::unique_ptr<TokenDecoder>> make_token_decoder(const JsonValue& json, Budget& budget) {
  // Sequences in sequences are one sequence. What is left to do, the next one last.
  Sequence sequence;
  std::vector<JsonValue> left = {json};
  while (!left.empty()) {
    TRY(budget.spend(1));
    const JsonValue next = std::move(left.back());
    left.pop_back();
    if (TRY(next.text("type")) != "Sequence") {
      sequence.parts.push_back(TRY(make_step(next)));
    } else {
      std::vector<JsonValue> steps;
      for (const JsonValue& step : TRY(next.items("decoders"))) {
        steps.push_back(step);
        if (left.size() + sequence.parts.size() + steps.size() > kMaxSteps) {
          return json.error_with("has more than " + std::to_string(kMaxSteps) + " decoders");
        }
      }
      left.insert(left.end(), std::make_move_iterator(steps.rbegin()), std::make_move_iterator(steps.rend()));
    }
  }
  return make(std::move(sequence));
}

}  // namespace runner

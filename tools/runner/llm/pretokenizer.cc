#include "tools/runner/llm/pretokenizer.h"

#include <algorithm>

#include "tools/runner/base/text.h"
#include "tools/runner/llm/character_tables.h"
#include "tools/runner/llm/matching.h"

namespace runner {
namespace {

using Pieces = std::vector<std::string>;

// The pattern of GPT-2, and of all tokenizers with the type ByteLevel and `use_regex`.
constexpr char kWords[] =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Hugging Face's do not use Oniguruma for "Whitespace", and their \w has other characters.
constexpr char kWordsAndMarks[] =
    R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+)"
    R"(|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\p{White_Space}]+)";

// Hugging Face's have Unicode 17 for "Digits", and Oniguruma has 16.
constexpr char kDigits[] = R"([\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}])";

class Splitter final : public Pretokenizer {
 public:
  Splitter(Regex regex, SplitBehavior behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}

  Status cut(Pieces& pieces, bool& is_start, Budget& budget) const override {
    Pieces all;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const std::string& piece = pieces[i];
      const auto parts = split(piece, TRY(regex_.matches(piece, budget)), behavior_, invert_);
      if (i == 0 && (parts.empty() || parts[0].data() != piece.data())) {
        is_start = false;
      }
      all.insert(all.end(), parts.begin(), parts.end());
    }
    pieces = std::move(all);
    return {};
  }

 private:
  Regex regex_;
  SplitBehavior behavior_;
  bool invert_;
};

// Splits at punctuation, of which each character is a match.
class Punctuation final : public Pretokenizer {
 public:
  explicit Punctuation(SplitBehavior behavior) : behavior_(behavior) {}

  Status cut(Pieces& pieces, bool& is_start, Budget& budget) const override {
    Pieces all;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const std::string& piece = pieces[i];
      TRY(budget.spend(piece.size()));
      const auto parts = split(piece, matches(piece), behavior_, false);
      if (i == 0 && (parts.empty() || parts[0].data() != piece.data())) {
        is_start = false;
      }
      all.insert(all.end(), parts.begin(), parts.end());
    }
    pieces = std::move(all);
    return {};
  }

 private:
  static std::vector<std::pair<size_t, size_t>> matches(std::string_view text) {
    std::vector<std::pair<size_t, size_t>> all;
    for (size_t i = 0; i < text.size();) {
      const size_t size = character_size(text, i);
      if (is_in(kPunctuation, code_point(text.substr(i, size)))) {
        all.emplace_back(i, i + size);
      }
      i += size;
    }
    return all;
  }

  SplitBehavior behavior_;
};

class ByteLevel final : public Pretokenizer {
 public:
  ByteLevel(bool adds_space, std::unique_ptr<Pretokenizer> words)
      : adds_space_(adds_space), words_(std::move(words)) {}

  Status cut(Pieces& pieces, bool& is_start, Budget& budget) const override {
    for (std::string& piece : pieces) {
      if (adds_space_ && !piece.empty() && piece[0] != ' ') {
        piece.insert(0, " ");
      }
    }
    if (words_ != nullptr) {
      TRY(words_->cut(pieces, is_start, budget));
    }
    size_t size = 0;
    for (std::string& piece : pieces) {
      piece = to_byte_level(piece);
      size += piece.size();
    }
    return make_text(size, budget);
  }

 private:
  bool adds_space_;
  std::unique_ptr<Pretokenizer> words_;  // nullptr: the text is one word.
};

class Metaspace final : public Pretokenizer {
 public:
  Metaspace(MetaspaceForm form, std::unique_ptr<Pretokenizer> words)
      : form_(std::move(form)), words_(std::move(words)) {}

  Status cut(Pieces& pieces, bool& is_start, Budget& budget) const override {
    const std::string& mark = form_.replacement;
    size_t size = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const std::string text = TRY(replaced(pieces[i], " ", mark, budget));
      const bool prepends =
          form_.scheme == "always" || (form_.scheme == "first" && is_start && i == 0);
      const bool has_it = text.compare(0, mark.size(), mark) == 0;
      pieces[i] = prepends && !has_it ? mark + text : text;
      size += pieces[i].size();
    }
    TRY(make_text(size, budget));
    return words_ == nullptr ? Status() : words_->cut(pieces, is_start, budget);
  }

  bool depends_on_start() const override {
    return form_.scheme == "first" || (words_ != nullptr && words_->depends_on_start());
  }

 private:
  MetaspaceForm form_;
  std::unique_ptr<Pretokenizer> words_;  // nullptr: the text is one word.
};

class Sequence final : public Pretokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Pretokenizer>> parts) : parts_(std::move(parts)) {}

  Status cut(Pieces& pieces, bool& is_start, Budget& budget) const override {
    for (const auto& part : parts_) {
      TRY(part->cut(pieces, is_start, budget));
    }
    return {};
  }

  bool depends_on_start() const override {
    return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->depends_on_start(); });
  }

 private:
  std::vector<std::unique_ptr<Pretokenizer>> parts_;
};

Result<std::unique_ptr<Pretokenizer>> make_splitter(
    const JsonValue& json,
    const std::string& pattern,
    SplitBehavior behavior,
    bool invert) {
  return std::make_unique<Splitter>(TRY(Regex::compile(pattern, json)), behavior, invert);
}

Result<SplitBehavior> read_behavior(const JsonValue& json, const std::string& name) {
  const auto behavior = split_behavior(name);
  if (!behavior) {
    return json.error_with("has the behavior \"" + name + "\", which the runner does not support");
  }
  return *behavior;
}

Result<std::unique_ptr<Pretokenizer>> make_bert(const JsonValue& json) {
  std::vector<std::unique_ptr<Pretokenizer>> parts;
  parts.push_back(TRY(make_splitter(json, "\\p{White_Space}", SplitBehavior::kRemoved, false)));
  parts.push_back(std::make_unique<Punctuation>(SplitBehavior::kIsolated));
  return std::make_unique<Sequence>(std::move(parts));
}

Result<std::unique_ptr<Pretokenizer>> make_split(const JsonValue& json) {
  const JsonValue pattern = TRY(json.at("pattern"));
  const SplitBehavior behavior = TRY(read_behavior(json, TRY(json.text("behavior"))));
  const std::string regex = pattern.has("Regex") ? TRY(pattern.text("Regex"))
                                                 : literal(TRY(pattern.text("String")));
  return make_splitter(json, regex, behavior, TRY(json.flag("invert", false)));
}

Result<std::unique_ptr<Pretokenizer>> make_byte_level(const JsonValue& json) {
  std::unique_ptr<Pretokenizer> words;
  if (TRY(json.flag("use_regex", true))) {
    words = TRY(make_splitter(json, kWords, SplitBehavior::kIsolated, false));
  }
  return std::make_unique<ByteLevel>(TRY(json.flag("add_prefix_space", true)), std::move(words));
}

Result<std::unique_ptr<Pretokenizer>> make_metaspace(const JsonValue& json) {
  const MetaspaceForm form = TRY(MetaspaceForm::read(json));
  std::unique_ptr<Pretokenizer> words;
  if (TRY(json.flag("split", true))) {
    words = TRY(
        make_splitter(json, literal(form.replacement), SplitBehavior::kMergedWithNext, false));
  }
  return std::make_unique<Metaspace>(form, std::move(words));
}

}  // namespace

Result<std::unique_ptr<Pretokenizer>> make_pretokenizer(const JsonValue& json, Budget& budget) {
  TRY(budget.spend(0));
  const std::string type = TRY(json.text("type"));
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Pretokenizer>> parts;
    for (const JsonValue& part : TRY(json.items("pretokenizers"))) {
      parts.push_back(TRY(make_pretokenizer(part, budget)));
    }
    return std::make_unique<Sequence>(std::move(parts));
  }
  if (type == "ByteLevel") {
    return make_byte_level(json);
  }
  if (type == "Metaspace") {
    return make_metaspace(json);
  }
  if (type == "Split") {
    return make_split(json);
  }
  if (type == "BertPreTokenizer") {
    return make_bert(json);
  }
  if (type == "Punctuation") {
    return std::make_unique<Punctuation>(TRY(read_behavior(json, TRY(json.text("behavior", "Isolated")))));
  }
  if (type == "Digits") {
    const bool each = TRY(json.flag("individual_digits", false));
    return make_splitter(
        json, kDigits, each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, false);
  }
  if (type == "Whitespace") {
    return make_splitter(json, kWordsAndMarks, SplitBehavior::kRemoved, true);
  }
  if (type == "WhitespaceSplit") {
    return make_splitter(json, "\\p{White_Space}", SplitBehavior::kRemoved, false);
  }
  return json.error_with("is of type \"" + type + "\", which the runner does not support");
}

}  // namespace runner

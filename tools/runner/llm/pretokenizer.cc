#include "tools/runner/llm/pretokenizer.h"

#include "tools/runner/llm/byte_level.h"
#include "tools/runner/llm/regex.h"
#include "tools/runner/llm/replacement.h"
#include "tools/runner/llm/text_split.h"

namespace runner {
namespace {

using Pieces = std::vector<std::string>;

// As GPT-2 cuts text, and all that have the type ByteLevel with `use_regex`.
constexpr char kWords[] =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class Splitter final : public Pretokenizer {
 public:
  Splitter(
      const std::string& pattern,
      SplitBehavior behavior,
      bool invert,
      const std::string& where)
      : regex_(pattern, where), behavior_(behavior), invert_(invert) {}

  Pieces cut(Pieces pieces, bool) const override {
    Pieces all;
    for (const std::string& piece : pieces) {
      for (const auto part : split(piece, regex_.matches(piece), behavior_, invert_)) {
        all.emplace_back(part);
      }
    }
    return all;
  }

 private:
  Regex regex_;
  SplitBehavior behavior_;
  bool invert_;
};

class ByteLevel final : public Pretokenizer {
 public:
  explicit ByteLevel(const JsonPart& json) : adds_space_(json.flag("add_prefix_space", true)) {
    if (json.flag("use_regex", true)) {
      words_ = std::make_unique<Splitter>(kWords, SplitBehavior::kIsolated, false, json.where());
    }
  }

  Pieces cut(Pieces pieces, bool) const override {
    for (std::string& piece : pieces) {
      if (adds_space_ && !piece.empty() && piece[0] != ' ') {
        piece.insert(0, " ");
      }
    }
    if (words_ != nullptr) {
      pieces = words_->cut(std::move(pieces), false);
    }
    for (std::string& piece : pieces) {
      piece = to_byte_level(piece);
    }
    return pieces;
  }

 private:
  bool adds_space_;
  std::unique_ptr<Splitter> words_;
};

class Metaspace final : public Pretokenizer {
 public:
  explicit Metaspace(const JsonPart& json) : form_(json) {
    const std::string& scheme = form_.scheme;
    if (scheme != "always" && scheme != "first" && scheme != "never") {
      json.fail_with("has the prepend_scheme \"" + scheme + "\", which the runner doesn't have");
    }
    if (json.flag("split", true)) {
      words_ = std::make_unique<Splitter>(
          literal(form_.replacement), SplitBehavior::kMergedWithNext, false, json.where());
    }
  }

  Pieces cut(Pieces pieces, bool is_start) const override {
    const std::string& mark = form_.replacement;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const std::string text = replaced(pieces[i], " ", mark);
      const bool prepends =
          form_.scheme == "always" || (form_.scheme == "first" && is_start && i == 0);
      const bool has_it = text.compare(0, mark.size(), mark) == 0;
      pieces[i] = prepends && !has_it ? mark + text : text;
    }
    return words_ == nullptr ? pieces : words_->cut(std::move(pieces), false);
  }

 private:
  MetaspaceForm form_;
  std::unique_ptr<Splitter> words_;
};

class Sequence final : public Pretokenizer {
 public:
  explicit Sequence(const JsonPart& json) {
    for (const JsonPart& part : json.at("pretokenizers").items()) {
      parts_.push_back(make_pretokenizer(part));
    }
  }

  Pieces cut(Pieces pieces, bool is_start) const override {
    for (const auto& part : parts_) {
      pieces = part->cut(std::move(pieces), is_start);
      size_t size = 0;
      for (const std::string& piece : pieces) {
        size += piece.size();
      }
      check_length(size);
    }
    return pieces;
  }

 private:
  std::vector<std::unique_ptr<Pretokenizer>> parts_;
};

std::unique_ptr<Pretokenizer> make_split(const JsonPart& json) {
  const JsonPart pattern = json.at("pattern");
  const std::string name = json.text("behavior");
  const auto behavior = split_behavior(name);
  if (!behavior) {
    json.fail_with("has the behavior \"" + name + "\", which the runner doesn't have");
  }
  const std::string regex =
      pattern.has("Regex") ? pattern.text("Regex") : literal(pattern.text("String"));
  return std::make_unique<Splitter>(regex, *behavior, json.flag("invert", false), json.where());
}

}  // namespace

std::unique_ptr<Pretokenizer> make_pretokenizer(const JsonPart& json) {
  const std::string type = json.text("type");
  const auto splitter = [&json](const char* pattern, SplitBehavior behavior, bool invert) {
    return std::make_unique<Splitter>(pattern, behavior, invert, json.where());
  };
  if (type == "Sequence") {
    return std::make_unique<Sequence>(json);
  }
  if (type == "ByteLevel") {
    return std::make_unique<ByteLevel>(json);
  }
  if (type == "Metaspace") {
    return std::make_unique<Metaspace>(json);
  }
  if (type == "Split") {
    return make_split(json);
  }
  if (type == "Digits") {
    const bool each = json.flag("individual_digits", false);
    return splitter(
        "\\p{N}", each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, false);
  }
  if (type == "Whitespace") {
    return splitter("\\w+|[^\\w\\s]+", SplitBehavior::kRemoved, true);
  }
  if (type == "WhitespaceSplit") {
    return splitter("\\s", SplitBehavior::kRemoved, false);
  }
  json.fail_with("is of type \"" + type + "\", which the runner doesn't have");
}

}  // namespace runner

// Changes of text before a tokenizer splits it, for example to Unicode's normal forms.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/runner/base/json.h"
#include "tools/runner/llm/matching.h"

namespace runner {

// Bytes of a text, from `start` to before `end`.
struct Range {
  size_t start;
  size_t end;
};

// A text, and what of it a user said: ranges in order, and apart.
struct SourcedText {
  std::string text;
  std::vector<Range> said;
};

// A new text for an old one, made from its start to its end. What comes of user text, even in part, is user text.
class Rewriting {
 public:
  // `from` must outlive this object.
  explicit Rewriting(const SourcedText& from) : from_(from) {}

  // Appends what the bytes of the old text from `start` to before `end` become.
  void put(std::string_view text, size_t start, size_t end);
  // Appends these bytes themselves.
  void keep(size_t start, size_t end);

  const std::string& text() const { return to_.text; }
  SourcedText take() { return std::move(to_); }

 private:
  void add_said(size_t start, size_t end);

  const SourcedText& from_;
  SourcedText to_;
  size_t next_ = 0;  // The first range of the old text that is not before what was read.
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual Status normalize(SourcedText& text, Budget& budget) const = 0;

  // Tells whether the result may lack the first character of a text.
  virtual bool may_remove_start() const { return false; }
};

// From a tokenizer.json. An error if the runner does not support it.
Result<std::unique_ptr<Normalizer>> make_normalizer(const JsonValue& json, Budget& budget);

}  // namespace runner

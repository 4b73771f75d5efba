#include "tools/runner/llm/normalizer.h"

#include <vector>

#include "tools/runner/base/fail.h"
#include "tools/runner/llm/normal_form.h"
#include "tools/runner/llm/replacement.h"
#include "tools/runner/llm/text_split.h"

namespace runner {
namespace {

class Prepend final : public Normalizer {
 public:
  explicit Prepend(const JsonPart& json) : text_(json.text("prepend")) {}

  std::string normalize(const std::string& text) const override {
    return text.empty() ? text : text_ + text;
  }

 private:
  std::string text_;
};

class Replace final : public Normalizer {
 public:
  explicit Replace(const JsonPart& json) : replacement_(json) {}

  std::string normalize(const std::string& text) const override {
    return replacement_.apply(text);
  }

 private:
  Replacement replacement_;
};

// Canonical composition, for text that has it already: to compose takes larger tables.
class Composed final : public Normalizer {
 public:
  explicit Composed(const JsonPart& json) : where_(json.where()) {}

  std::string normalize(const std::string& text) const override {
    const std::string_view other = not_composed(text);
    if (!other.empty()) {
      fail(where_ + ": the runner doesn't bring text into its normal form (NFC), and \"" +
           std::string(other) + "\" may need that; give the text in that form.");
    }
    return text;
  }

 private:
  std::string where_;
};

class Sequence final : public Normalizer {
 public:
  explicit Sequence(const JsonPart& json) {
    for (const JsonPart& part : json.at("normalizers").items()) {
      parts_.push_back(make_normalizer(part));
    }
  }

  std::string normalize(const std::string& text) const override {
    std::string result = text;
    for (const auto& part : parts_) {
      result = part->normalize(result);
      check_length(result.size());
    }
    return result;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const JsonPart& json) {
  const std::string type = json.text("type");
  if (type == "Sequence") {
    return std::make_unique<Sequence>(json);
  }
  if (type == "Prepend") {
    return std::make_unique<Prepend>(json);
  }
  if (type == "Replace") {
    return std::make_unique<Replace>(json);
  }
  if (type == "NFC") {
    return std::make_unique<Composed>(json);
  }
  json.fail_with("is of type \"" + type + "\", which the runner doesn't have");
}

}  // namespace runner

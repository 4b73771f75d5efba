#include "tools/runner/llm/special_tokens.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace runner {
namespace {

// Around one text; known files have at most 4.
constexpr size_t kMaxSpecial = 4096;
constexpr uint64_t kMaxPadded = 1 << 20;

Result<std::vector<uint32_t>> read_ids(const JsonValue& json) {
  std::vector<uint32_t> ids;
  for (const nlohmann::json& id : json.value()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > UINT32_MAX) {
      return json.error_with("has an id of a token that is not a number of 32 bits");
    }
    ids.push_back(id.get<uint32_t>());
  }
  return ids;
}

// The number of ["[CLS]", 101].
Result<std::vector<uint32_t>> read_named_id(const JsonValue& json, const char* key) {
  const auto items = TRY(json.items(key));
  const nlohmann::json& pair = items.whole().value();
  if (pair.size() != 2 || !pair[1].is_number_unsigned() || pair[1].get<uint64_t>() > UINT32_MAX) {
    return json.error_with(std::string("has a \"") + key + "\" that is not a token and its id");
  }
  return std::vector<uint32_t>{pair[1].get<uint32_t>()};
}

// Tells whether a "direction" is to the right.
Result<bool> is_at_end(const JsonValue& json) {
  const std::string direction = TRY(json.text("direction", "Right"));
  if (direction != "Right" && direction != "Left") {
    return json.error_with("has the direction \"" + direction + "\", which the runner does not support");
  }
  return direction == "Right";
}

}  // namespace

size_t SpecialTokens::special_of(const std::vector<Part>& parts) {
  size_t count = 0;
  for (const Part& part : parts) {
    count += part.special.size();
  }
  return count;
}

Result<SpecialTokens> SpecialTokens::read(const JsonValue& root) {
  SpecialTokens special;
  special.where_ = root.where();
  if (root.has("post_processor")) {
    TRY(special.read_processor(TRY(root.at("post_processor"))));
  }
  if (root.has("truncation")) {
    TRY(special.read_truncation(TRY(root.at("truncation"))));
  }
  if (root.has("padding")) {
    TRY(special.read_padding(TRY(root.at("padding"))));
  }
  return special;
}

Status SpecialTokens::read_truncation(const JsonValue& json) {
  constexpr std::pair<const char*, Shortens> kStrategies[] = {
      {"LongestFirst", Shortens::kLongest}, {"OnlyFirst", Shortens::kFirst}, {"OnlySecond", Shortens::kSecond}};
  Truncation truncation;
  truncation.most = TRY(json.number("max_length", UINT32_MAX));
  truncation.at_end = TRY(is_at_end(json));
  const std::string strategy = TRY(json.text("strategy"));
  const auto* const known = std::find_if(std::begin(kStrategies), std::end(kStrategies), [&](const auto& entry) {
    return strategy == entry.first;
  });
  if (known == std::end(kStrategies)) {
    return json.error_with("has the strategy \"" + strategy + "\", which the runner does not support");
  }
  truncation.shortens = known->second;
  truncation_ = truncation;
  return {};
}

Status SpecialTokens::read_padding(const JsonValue& json) {
  Padding padding;
  // The other strategy, "BatchLongest", pads nothing, as there is one text.
  const auto strategy = json.value().find("strategy");
  if (strategy != json.value().end() && strategy->is_object()) {
    padding.least = TRY(TRY(json.at("strategy")).number("Fixed", kMaxPadded));
  } else if (TRY(json.text("strategy")) != "BatchLongest") {
    return json.error_with("has a strategy that the runner does not support");
  }
  if (json.has("pad_to_multiple_of")) {
    padding.multiple = std::max<size_t>(TRY(json.number("pad_to_multiple_of", kMaxPadded)), 1);
  }
  padding.token = static_cast<uint32_t>(TRY(json.number("pad_id", UINT32_MAX)));
  padding.segment = static_cast<uint32_t>(TRY(json.number("pad_type_id", UINT32_MAX)));
  padding.at_end = TRY(is_at_end(json));
  padding_ = padding;
  return {};
}

Status SpecialTokens::read_processor(const JsonValue& json) {
  const std::string type = TRY(json.text("type"));
  if (type == "ByteLevel") {
    return {};  // Changes positions in the text only.
  }
  if (type == "Sequence") {
    for (const JsonValue& processor : TRY(json.items("processors"))) {
      TRY(read_processor(processor));
    }
    return {};
  }
  const bool is_roberta = type == "RobertaProcessing";
  if (type != "TemplateProcessing" && type != "BertProcessing" && !is_roberta) {
    return json.error_with("is of type \"" + type + "\", which the runner does not support");
  }
  if (std::exchange(is_known_, true)) {
    return json.error_with("is the second one that adds tokens, which the runner does not support");
  }
  return type == "TemplateProcessing" ? read_template(json) : read_ends(json, is_roberta);
}

Result<std::vector<SpecialTokens::Part>> SpecialTokens::read_parts(const JsonValue& json, const char* key) {
  std::vector<Part> parts;
  for (const JsonValue& entry : TRY(json.items(key))) {
    Part part;
    const bool is_text = entry.has("Sequence");
    const JsonValue value = TRY(entry.at(is_text ? "Sequence" : "SpecialToken"));
    const std::string id = TRY(value.text("id"));
    part.segment = static_cast<uint32_t>(TRY(value.number("type_id", UINT32_MAX)));
    if (!is_text) {
      const JsonValue token = TRY(TRY(json.at("special_tokens")).at(id));
      part.special = TRY(read_ids(TRY(token.items("ids")).whole()));
    } else if (id == "A" || id == "B") {
      part.text = id == "A" ? 0 : 1;
    } else {
      return value.error_with("has the id \"" + id + "\", expected \"A\" or \"B\"");
    }
    parts.push_back(std::move(part));
    if (special_of(parts) > kMaxSpecial || parts.size() > kMaxSpecial) {
      return json.error_with("has more than " + std::to_string(kMaxSpecial) + " special tokens in \"" + key + "\"");
    }
  }
  return parts;
}

Status SpecialTokens::read_template(const JsonValue& json) {
  single_ = TRY(read_parts(json, "single"));
  pair_ = TRY(read_parts(json, "pair"));
  for (const Part& part : single_) {
    if (part.text == 1) {
      return json.error_with("has a second text in \"single\"");
    }
  }
  return {};
}

Status SpecialTokens::read_ends(const JsonValue& json, bool is_roberta) {
  const std::vector<uint32_t> begin = TRY(read_named_id(json, "cls")), end = TRY(read_named_id(json, "sep"));
  single_ = {{begin, -1, 0}, {{}, 0, 0}, {end, -1, 0}};
  pair_ = single_;
  const uint32_t second = is_roberta ? 0 : 1;
  if (is_roberta) {
    pair_.push_back({end, -1, second});
  }
  pair_.push_back({{}, 1, second});
  pair_.push_back({end, -1, second});
  return {};
}

Status SpecialTokens::truncate(std::vector<std::vector<uint32_t>>& texts, const std::vector<Part>& parts) const {
  const size_t special = special_of(parts);
  const size_t most = truncation_->most > special ? truncation_->most - special : 0;
  std::vector<size_t> sizes;
  size_t count = 0;
  for (const auto& text : texts) {
    sizes.push_back(text.size());
    count += text.size();
  }
  if (count <= most) {
    return {};
  }
  if (most == 0) {
    return error(where_ + ": its truncation to " + std::to_string(truncation_->most) +
                 " tokens leaves none for a text beside special tokens. Set the file's \"truncation\" to null.");
  }
  if (truncation_->shortens == Shortens::kLongest) {
    // As in Hugging Face's: the shorter text, of equal ones the first, stays whole if it takes at most half.
    const size_t small = sizes.size() == 2 && sizes[1] < sizes[0] ? 1 : 0;
    if (sizes.size() == 1) {
      sizes[0] = most;
    } else if (std::max(sizes[small], most - std::min(most, sizes[small])) + sizes[small] <= most) {
      sizes[1 - small] = most - sizes[small];
    } else {
      sizes[small] = most / 2;
      sizes[1 - small] = most - most / 2;
    }
  } else {
    const size_t text = truncation_->shortens == Shortens::kFirst ? 0 : 1;
    const size_t excess = count - most;
    if (text >= sizes.size() || sizes[text] <= excess) {
      return error(where_ + ": its truncation to " + std::to_string(truncation_->most) +
                   " tokens shortens one text only, which is too short. Shorten the texts.");
    }
    sizes[text] -= excess;
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto surplus = static_cast<std::ptrdiff_t>(texts[i].size() - sizes[i]);
    if (truncation_->at_end) {
      texts[i].resize(sizes[i]);
    } else {
      texts[i].erase(texts[i].begin(), texts[i].begin() + surplus);
    }
  }
  return {};
}

void SpecialTokens::pad(MarkedTokens& marked) const {
  size_t size = std::max(marked.tokens.size(), padding_->least);
  size += (padding_->multiple - size % padding_->multiple) % padding_->multiple;
  const size_t count = size - marked.tokens.size();
  const auto add = [&](std::vector<uint32_t>& values, uint32_t value) {
    values.insert(padding_->at_end ? values.end() : values.begin(), count, value);
  };
  add(marked.tokens, padding_->token);
  add(marked.segments, padding_->segment);
  add(marked.mask, 0);
}

Result<MarkedTokens> SpecialTokens::mark(std::vector<std::vector<uint32_t>> texts) const {
  if (texts.empty() || texts.size() > 2) {
    return error(where_ + ": got " + std::to_string(texts.size()) + " texts, expected one, or two that belong together.");
  }
  const std::vector<Part>& parts = texts.size() == 1 ? single_ : pair_;
  if (truncation_) {
    TRY(truncate(texts, parts));
  }
  MarkedTokens marked;
  for (const Part& part : parts) {
    const std::vector<uint32_t>& tokens = part.text < 0 ? part.special : texts[static_cast<size_t>(part.text)];
    marked.tokens.insert(marked.tokens.end(), tokens.begin(), tokens.end());
    marked.segments.resize(marked.tokens.size(), part.segment);
  }
  marked.mask.assign(marked.tokens.size(), 1);
  if (padding_) {
    pad(marked);
  }
  return marked;
}

}  // namespace runner

#include "tools/runner/llm/special_tokens.h"

#include <utility>

namespace runner {
namespace {

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

}  // namespace

Result<SpecialTokens> SpecialTokens::read(const JsonValue& root) {
  SpecialTokens special;
  special.where_ = root.where();
  if (root.has("post_processor")) {
    TRY(special.read_processor(TRY(root.at("post_processor"))));
  }
  return special;
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
      const JsonValue token = TRY(TRY(json.at("special_tokens")).at(id.c_str()));
      part.special = TRY(read_ids(TRY(token.items("ids")).whole()));
    } else if (id == "A" || id == "B") {
      part.text = id == "A" ? 0 : 1;
    } else {
      return value.error_with("has the id \"" + id + "\", expected \"A\" or \"B\"");
    }
    parts.push_back(std::move(part));
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

Result<MarkedTokens> SpecialTokens::mark(const std::vector<std::vector<uint32_t>>& texts) const {
  if (texts.empty() || texts.size() > 2) {
    return error(where_ + ": got " + std::to_string(texts.size()) + " texts, expected one, or two that belong together.");
  }
  MarkedTokens marked;
  for (const Part& part : texts.size() == 1 ? single_ : pair_) {
    const std::vector<uint32_t>& tokens = part.text < 0 ? part.special : texts[static_cast<size_t>(part.text)];
    marked.tokens.insert(marked.tokens.end(), tokens.begin(), tokens.end());
    marked.segments.resize(marked.tokens.size(), part.segment);
  }
  return marked;
}

}  // namespace runner

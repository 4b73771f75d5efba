#include "tools/runner/llm/json_fields.h"

#include "tools/runner/base/fail.h"

namespace runner {

void JsonPart::fail_with(const std::string& problem) const {
  fail(where_ + " " + problem + ".");
}

bool JsonPart::has(const char* key) const {
  const auto found = value_.is_object() ? value_.find(key) : value_.end();
  return found != value_.end() && !found->is_null();
}

JsonPart JsonPart::at(const char* key) const {
  if (!has(key)) {
    fail_with("has no \"" + std::string(key) + "\"");
  }
  return {*value_.find(key), where_ + ", " + key};
}

std::vector<JsonPart> JsonPart::items() const {
  if (!value_.is_array()) {
    fail_with("is no list");
  }
  std::vector<JsonPart> all;
  for (const auto& value : value_) {
    all.push_back({value, where_ + "[" + std::to_string(all.size()) + "]"});
  }
  return all;
}

std::string JsonPart::text(const char* key) const {
  const JsonPart part = at(key);
  if (!part.value().is_string()) {
    part.fail_with("is no string");
  }
  return part.value().get<std::string>();
}

std::string JsonPart::text(const char* key, const std::string& otherwise) const {
  return has(key) ? text(key) : otherwise;
}

bool JsonPart::flag(const char* key, bool otherwise) const {
  if (!has(key)) {
    return otherwise;
  }
  const JsonPart part = at(key);
  if (!part.value().is_boolean()) {
    part.fail_with("is neither true nor false");
  }
  return part.value().get<bool>();
}

}  // namespace runner

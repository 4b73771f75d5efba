#include "tools/runner/base/json_reader.h"

#include "tools/runner/base/fail.h"
#include "tools/runner/base/json_depth.h"
#include "tools/runner/base/mapped_file.h"

namespace runner {

using nlohmann::json;

JsonReader JsonReader::read(const std::string& path, const std::string& what) {
  const MappedFile file(path, what);
  const std::string_view text = file.text();
  if (is_nested_too_deeply(text)) {
    fail(path + " is not " + what + ": it is nested too deeply; build it again.");
  }
  json value = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) {
    fail(path + " is not " + what + ": it is no JSON object; build it again.");
  }
  return {path, what, value};
}

const json& JsonReader::member(const char* key, const char* type, bool (*is)(const json&)) const {
  const auto found = value_.is_object() ? value_.find(key) : value_.end();
  if (found == value_.end() || !is(*found)) {
    fail(path_ + " is not " + what_ + " of this version: \"" + key + "\" is missing or no " + type +
         "; build it again.");
  }
  return *found;
}

JsonReader JsonReader::at(const char* key) const {
  return with(member(key, "object", [](const json& j) { return j.is_object(); }));
}

std::string JsonReader::text(const char* key) const {
  return member(key, "string", [](const json& j) { return j.is_string(); }).get<std::string>();
}

uint64_t JsonReader::number(const char* key) const {
  return member(key, "number", [](const json& j) { return j.is_number_unsigned(); })
      .get<uint64_t>();
}

bool JsonReader::flag(const char* key) const {
  return member(key, "boolean", [](const json& j) { return j.is_boolean(); }).get<bool>();
}

std::vector<JsonReader> JsonReader::list(const char* key) const {
  std::vector<JsonReader> found;
  for (const json& item : member(key, "list", [](const json& j) { return j.is_array(); })) {
    found.push_back(with(item));
  }
  return found;
}

std::vector<std::pair<std::string, JsonReader>> JsonReader::members(const char* key) const {
  std::vector<std::pair<std::string, JsonReader>> found;
  const json& object = member(key, "object", [](const json& j) { return j.is_object(); });
  for (auto item = object.begin(); item != object.end(); ++item) {
    found.emplace_back(item.key(), with(item.value()));
  }
  return found;
}

std::string JsonReader::as_text() const {
  if (!value_.is_string()) {
    fail(path_ + " is not " + what_ + " of this version: a list has something that is no string.");
  }
  return value_.get<std::string>();
}

}  // namespace runner

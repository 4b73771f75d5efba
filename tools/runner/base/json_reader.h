// Values out of a JSON file; what is missing or of another type ends the process with a sentence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/runner/base/json.h"

namespace runner {

class JsonReader {
 public:
  // Parses `path`; `what` names the file in sentences: "a manifest".
  static JsonReader read(const std::string& path, const std::string& what);

  bool has(const char* key) const { return value_.is_object() && value_.contains(key); }
  // And it is not null.
  bool has_value(const char* key) const { return has(key) && !value_.find(key)->is_null(); }
  JsonReader at(const char* key) const;
  std::string text(const char* key) const;
  uint64_t number(const char* key) const;
  bool flag(const char* key) const;
  std::vector<JsonReader> list(const char* key) const;
  // The members of an object, by key.
  std::vector<std::pair<std::string, JsonReader>> members(const char* key) const;
  // This value, which must be a string.
  std::string as_text() const;

 private:
  JsonReader(const std::string& path, const std::string& what, const nlohmann::json& value)
      : path_(path), what_(what), value_(value) {}
  const nlohmann::json& member(const char* key, const char* type, bool (*is)(const nlohmann::json&))
      const;
  JsonReader with(const nlohmann::json& value) const { return {path_, what_, value}; }

  std::string path_;
  std::string what_;
  nlohmann::json value_;
};

}  // namespace runner

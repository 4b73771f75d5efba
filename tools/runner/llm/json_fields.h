// Fields of a part of a tokenizer.json, which says where it is.
#pragma once

#include <string>
#include <vector>

#include "tools/runner/base/json.h"

namespace runner {

class JsonPart {
 public:
  // `where` begins sentences: the file, and the part of it.
  JsonPart(const nlohmann::json& value, std::string where)
      : value_(value), where_(std::move(where)) {}

  const nlohmann::json& value() const { return value_; }
  const std::string& where() const { return where_; }

  // Ends the process with "<where> <problem>."
  [[noreturn]] void fail_with(const std::string& problem) const;

  // Whether there is something that is not null.
  bool has(const char* key) const;
  JsonPart at(const char* key) const;
  // Ends the process with a sentence if it is no list.
  std::vector<JsonPart> items() const;

  // Of the type that is wanted; where there is none or null: what is given for it.
  std::string text(const char* key) const;
  std::string text(const char* key, const std::string& otherwise) const;
  bool flag(const char* key, bool otherwise) const;

 private:
  const nlohmann::json& value_;
  std::string where_;
};

}  // namespace runner

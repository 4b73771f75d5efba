// JSON of unknown origin.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

// Without the parts that need more of the C++ library than strings.
#define JSON_NO_IO 1
#include <nlohmann/json.hpp>

#include "tools/runner/base/budget.h"
#include "tools/runner/base/result.h"

namespace runner {

// Parses an object. An error is the second half of a sentence: "it is not JSON at byte 7".
//
// Takes time and memory in proportion to the text. Refuses duplicate keys, because readers differ in which one
// they use, numbers without a fraction that 64 bits do not hold, because readers differ in what they become, and deeper
// nesting than in any file of these rules, because the library copies values recursively.
Result<nlohmann::json> parse_json(std::string_view text);

// A name for errors: names of a file may be as long as the file, and are part of each entry's position.
std::string shortened(const std::string& name);

template <class Entry>
class JsonParts;

// A value in a JSON file, which knows its position. Missing members and members of another type are
// errors. So is work that is not proportional to the file: what is read of it counts in the file's budget, each time, and
// readers count there what they make of it. Example:
//
//     const JsonValue json = TRY(JsonValue::read("a.json", "a manifest"));
//     const std::string label = TRY(json.text("label"));
//     for (const JsonValue& data : TRY(json.items("data"))) {
//       const uint64_t size = TRY(data.number("size"));
//       ...
class JsonValue {
 public:
  // Reads a file with an object; `what` names it in errors: "a manifest".
  static Result<JsonValue> read(const std::string& path, const std::string& what);
  // `where` begins errors; `bytes` is the size of the file.
  static JsonValue of(nlohmann::json document, std::string where, uint64_t bytes);

  const nlohmann::json& value() const { return *value_; }
  // Begins errors: the file, and the part of it.
  const std::string& where() const { return where_; }
  // Of the whole file.
  Budget& budget() const { return document_->budget; }
  // "<where> <problem>."
  Status error_with(const std::string& problem) const;

  // Tells whether the member exists and is not null.
  bool has(const std::string& key) const;
  // A member of that type; `fallback` if it is missing or null.
  Result<JsonValue> at(const std::string& key) const;
  Result<std::string> text(const std::string& key) const;
  Result<std::string> text(const std::string& key, const std::string& fallback) const;
  Result<uint64_t> number(const std::string& key, uint64_t most = UINT64_MAX) const;
  Result<bool> flag(const std::string& key) const;
  Result<bool> flag(const std::string& key, bool fallback) const;
  // For iteration: the items of a list, and the members of an object with their names.
  Result<JsonParts<JsonValue>> items(const std::string& key) const;
  Result<JsonParts<std::pair<std::string, JsonValue>>> members(const std::string& key) const;
  // This value, which must be a string.
  Result<std::string> as_text() const;
  // This value, which must be a whole number.
  Result<uint64_t> as_number(uint64_t most) const;

 private:
  template <class Entry>
  friend class JsonParts;

  struct Document {
    nlohmann::json root;
    Budget budget;
  };

  JsonValue(std::shared_ptr<Document> document, const nlohmann::json& value, std::string where)
      : document_(std::move(document)), value_(&value), where_(std::move(where)) {}

  const nlohmann::json* find(const std::string& key) const;
  Result<const nlohmann::json*>
  member(const std::string& key, const char* type, bool (nlohmann::json::*is)() const noexcept) const;
  JsonValue part(const nlohmann::json& value, const std::string& where) const {
    return {document_, value, where_ + where};
  }

  // Shared by all parts: copies would multiply the memory.
  std::shared_ptr<Document> document_;
  const nlohmann::json* value_;
  std::string where_;
};

// The parts of a list or an object, created during iteration: a file may have millions.
template <class Entry>
class JsonParts {
 public:
  explicit JsonParts(JsonValue whole) : whole_(std::move(whole)) {}

  class Iterator {
   public:
    Iterator(const JsonValue& whole, nlohmann::json::const_iterator at) : whole_(whole), at_(at) {}

    bool operator!=(const Iterator& other) const { return at_ != other.at_; }
    Iterator& operator++() {
      ++at_;
      ++number_;
      return *this;
    }
    Entry operator*() const {
      if constexpr (std::is_same_v<Entry, JsonValue>) {
        return whole_.part(*at_, "[" + std::to_string(number_) + "]");
      } else {
        return {at_.key(), whole_.part(*at_, ", \"" + shortened(at_.key()) + "\"")};
      }
    }

   private:
    const JsonValue& whole_;
    nlohmann::json::const_iterator at_;
    size_t number_ = 0;
  };

  Iterator begin() const { return {whole_, whole_.value().begin()}; }
  Iterator end() const { return {whole_, whole_.value().end()}; }
  const JsonValue& whole() const { return whole_; }

 private:
  JsonValue whole_;
};

}  // namespace runner

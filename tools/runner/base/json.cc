#include "tools/runner/base/json.h"

#include <utility>
#include <vector>

#include "tools/runner/base/files.h"
#include "tools/runner/base/text.h"

namespace runner {
namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 100;
// Each costs up to 100 bytes. A tokenizer of 256,000 tokens has 2 million.
constexpr size_t kMaxValues = 10'000'000;

class Builder final : public nlohmann::json_sax<json> {
 public:
  json& result() { return result_; }
  // The reason why the parser stopped.
  const std::string& problem() const { return problem_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& digits) override {
    const bool is_whole = digits.find_first_of(".eE") == std::string::npos;
    return is_whole ? stop("it has the number " + shortened(digits) + ", which 64 bits do not hold") : add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return stop("it has binary data"); }
  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [member, is_new] = open_.back()->get_ref<json::object_t&>().emplace(name, nullptr);
    member_ = &member->second;
    return is_new || stop("it has the key \"" + shortened(name) + "\" twice");
  }

  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    return stop("it is not JSON at byte " + std::to_string(position));
  }

 private:
  bool stop(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  // The stored value; nullptr: there are too many values.
  json* store(json&& value) {
    if (++count_ > kMaxValues) {
      stop("it has too many values");
      return nullptr;
    }
    if (open_.empty()) {
      result_ = std::move(value);
      return &result_;
    }
    if (open_.back()->is_array()) {
      auto& items = open_.back()->get_ref<json::array_t&>();
      items.push_back(std::move(value));
      return &items.back();
    }
    *member_ = std::move(value);
    return member_;
  }

  bool add(json&& value) { return store(std::move(value)) != nullptr; }

  bool open(json&& value) {
    if (open_.size() == kMaxDepth) {
      return stop("it is nested too deeply");
    }
    open_.push_back(store(std::move(value)));
    return open_.back() != nullptr;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  json result_;
  // Open lists and objects. Only the last one grows, so none moves.
  std::vector<json*> open_;
  json* member_ = nullptr;  // The member of the last object whose value comes next.
  size_t count_ = 0;
  std::string problem_;
};

}  // namespace

std::string shortened(const std::string& name) {
  constexpr size_t kMaxShown = 200;
  const std::string_view shown = std::string_view(name).substr(0, kMaxShown);
  return name.size() <= kMaxShown ? name : repaired(without_cut_end(shown)) + "...";
}

Result<json> parse_json(std::string_view text) {
  Builder builder;
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    return error(builder.problem());
  }
  if (!builder.result().is_object()) {
    return error("it is not a JSON object");
  }
  return std::move(builder.result());
}

Result<JsonValue> JsonValue::read(const std::string& path, const std::string& what) {
  const MappedFile file = TRY(MappedFile::open(path, what));
  Result<json> value = parse_json(file.text());
  if (!value.ok()) {
    return error(path + " is not " + what + ": " + value.sentence() + "; build it again.");
  }
  return of(value.take_value(), path + " is not " + what + " of this version", file.size());
}

JsonValue JsonValue::of(json document, std::string where, uint64_t bytes) {
  Budget budget(where, "reading it takes too long", "It is malformed: build it again.", bytes);
  const auto shared = std::make_shared<Document>(Document{std::move(document), std::move(budget)});
  return {shared, shared->root, std::move(where)};
}

Status JsonValue::error_with(const std::string& problem) const {
  return error(where_ + " " + problem + ".");
}

const json* JsonValue::find(const std::string& key) const {
  const auto member = value_->is_object() ? value_->find(key) : value_->end();
  return member == value_->end() ? nullptr : &*member;
}

bool JsonValue::has(const std::string& key) const {
  const json* member = find(key);
  return member != nullptr && !member->is_null();
}

Result<const json*> JsonValue::member(
    const std::string& key,
    const char* type,
    bool (json::*is)() const noexcept) const {
  const json* member = find(key);
  if (member == nullptr || !(member->*is)()) {
    return error(where_ + ": \"" + shortened(key) + "\" is missing or not of type " + type + ".");
  }
  // A caller goes through a list, and copies a text.
  TRY(budget().spend(where_.size() + (member->is_string() ? member->get_ref<const std::string&>().size() : member->size())));
  return member;
}

Result<JsonValue> JsonValue::at(const std::string& key) const {
  const json* object = TRY(member(key, "object", &json::is_object));
  return part(*object, ", " + shortened(key));
}

Result<std::string> JsonValue::text(const std::string& key) const {
  return TRY(member(key, "string", &json::is_string))->get<std::string>();
}

Result<std::string> JsonValue::text(const std::string& key, const std::string& fallback) const {
  return has(key) ? text(key) : Result<std::string>(fallback);
}

Result<uint64_t> JsonValue::number(const std::string& key, uint64_t most) const {
  const auto number =
      TRY(member(key, "number", &json::is_number_unsigned))->get<uint64_t>();
  if (number > most) {
    return error(where_ + ": \"" + key + "\" is " + std::to_string(number) +
                 ", expected at most " + std::to_string(most) + ".");
  }
  return number;
}

Result<bool> JsonValue::flag(const std::string& key) const {
  return TRY(member(key, "boolean", &json::is_boolean))->get<bool>();
}

Result<bool> JsonValue::flag(const std::string& key, bool fallback) const {
  return has(key) ? flag(key) : Result<bool>(fallback);
}

Result<JsonParts<JsonValue>> JsonValue::items(const std::string& key) const {
  const json* list = TRY(member(key, "list", &json::is_array));
  return JsonParts<JsonValue>(part(*list, ", " + shortened(key)));
}

Result<JsonParts<std::pair<std::string, JsonValue>>> JsonValue::members(const std::string& key) const {
  return JsonParts<std::pair<std::string, JsonValue>>(TRY(at(key)));
}

Result<std::string> JsonValue::as_text() const {
  if (!value_->is_string()) {
    return error(where_ + ": it is not a string.");
  }
  return value_->get<std::string>();
}

Result<uint64_t> JsonValue::as_number(uint64_t most) const {
  if (!value_->is_number_unsigned() || value_->get<uint64_t>() > most) {
    return error(where_ + ": it is not a whole number from 0 to " + std::to_string(most) + ".");
  }
  return value_->get<uint64_t>();
}

}  // namespace runner

#include "tools/runner/llm/chat_format.h"

#include "tools/runner/base/fail.h"
#include "tools/runner/base/json_reader.h"

namespace runner {
namespace {

constexpr char kSpace[] = " \t\n\v\f\r";

std::vector<std::string> texts(
    const JsonReader& json,
    const char* key,
    size_t count,
    const std::string& path) {
  std::vector<std::string> all;
  for (const JsonReader& text : json.list(key)) {
    all.push_back(text.as_text());
  }
  if (all.size() != count) {
    fail(path + " is not a chat format of this version: \"" + key + "\" has " +
         std::to_string(all.size()) + " texts, wanted " + std::to_string(count) + ".");
  }
  return all;
}

std::string trimmed(const std::string& text) {
  const size_t start = text.find_first_not_of(kSpace);
  const size_t end = text.find_last_not_of(kSpace);
  return start == std::string::npos ? "" : text.substr(start, end + 1 - start);
}

}  // namespace

ChatFormat ChatFormat::read(const std::string& path) {
  const JsonReader json = JsonReader::read(path, "a chat format");
  if (json.number("format") != 1) {
    fail(path + " has format " + std::to_string(json.number("format")) + ", wanted 1.");
  }
  if (json.has("problem")) {
    fail(path + " has no form of conversations: " + json.text("problem") +
         " Give the whole text with --raw_prompt.");
  }
  ChatFormat format;
  format.path_ = path;
  format.trims_ = json.flag("trims");
  format.around_prompt_ = texts(json, "prompt", 2, path);
  if (json.has_value("system_and_prompt")) {
    format.around_system_and_prompt_ = texts(json, "system_and_prompt", 3, path);
  }
  if (json.has_value("next")) {
    format.around_next_ = texts(json, "next", 2, path);
  }
  return format;
}

std::string ChatFormat::render(const std::string& prompt, const std::string& system) const {
  const std::string said = trims_ ? trimmed(prompt) : prompt;
  if (system.empty()) {
    return around_prompt_[0] + said + around_prompt_[1];
  }
  if (!around_system_and_prompt_) {
    fail("--system: " + path_ + " has no form of a conversation with a system message; leave it out, or give "
         "the whole text with --raw_prompt.");
  }
  const std::vector<std::string>& around = *around_system_and_prompt_;
  return around[0] + (trims_ ? trimmed(system) : system) + around[1] + said + around[2];
}

std::string ChatFormat::render_next(const std::string& prompt) const {
  check_has_next();
  return (*around_next_)[0] + (trims_ ? trimmed(prompt) : prompt) + (*around_next_)[1];
}

void ChatFormat::check_has_next() const {
  if (!around_next_) {
    fail("--chat: " + path_ + " has no form of what follows an answer, as its template changes what was "
         "said before; ask with --prompt, or talk with the model in Python.");
  }
}

}  // namespace runner

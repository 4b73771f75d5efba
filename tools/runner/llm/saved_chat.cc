#include "tools/runner/llm/saved_chat.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "tools/runner/base/checksum.h"
#include "tools/runner/base/files.h"
#include "tools/runner/base/json.h"

namespace runner {
namespace {

// The first line of a file is a header in JSON; the memory follows.
constexpr uint64_t kSavedFormat = 1;
constexpr size_t kMostSavedHeader = 64 << 20;

nlohmann::json described(const Session::Cursor& cursor) {
  return {{"read", cursor.read}, {"unread", cursor.unread}};
}

std::vector<uint64_t> sizes_of(const ChatMemory& memory) {
  std::vector<uint64_t> sizes;
  for (const auto& part : memory) {
    sizes.push_back(part.size());
  }
  return sizes;
}

Result<std::vector<uint32_t>> read_tokens(const JsonValue& json, const char* key) {
  std::vector<uint32_t> tokens;
  const auto items = TRY(json.items(key));
  for (const nlohmann::json& token : items.whole().value()) {
    if (!token.is_number_unsigned() || token.get<uint64_t>() > UINT32_MAX) {
      return json.error_with(std::string("has a token in \"") + key + "\" that is not a number of 32 bits");
    }
    tokens.push_back(token.get<uint32_t>());
  }
  return tokens;
}

Result<Session::Cursor> read_cursor(const JsonValue& json, uint64_t context) {
  Session::Cursor cursor;
  cursor.read = TRY(json.number("read", context));
  cursor.unread = TRY(read_tokens(json, "unread"));
  if (cursor.read + cursor.unread.size() > context) {
    return json.error_with("has " + std::to_string(cursor.read + cursor.unread.size()) +
                           " tokens, and the context holds " + std::to_string(context));
  }
  return cursor;
}

}  // namespace

Status save_chat(
    const std::string& path,
    const std::string& identity,
    const SavedChat& chat,
    const ChatMemory& memory) {
  nlohmann::json turns = nlohmann::json::array();
  for (const Session::Cursor& turn : chat.turns) {
    turns.push_back(described(turn));
  }
  nlohmann::json checksums = nlohmann::json::array();
  for (const auto& part : memory) {
    checksums.push_back(sha256(part.data(), part.size()));
  }
  const nlohmann::json header = {
      {"checksums", checksums},
      {"cursor", described(chat.cursor)},
      {"format", kSavedFormat},
      {"history", chat.history},
      {"memory", sizes_of(memory)},
      {"program", identity},
      {"turns", turns},
  };
  const std::string line = header.dump() + "\n";
  std::vector<std::string_view> pieces = {line};
  for (const auto& part : memory) {
    pieces.emplace_back(reinterpret_cast<const char*>(part.data()), part.size());
  }
  return write_file(path, pieces);
}

Result<SavedChat> restore_chat(
    const std::string& path,
    const std::string& identity,
    uint64_t context,
    const ChatMemory& memory) {
  const MappedFile file = TRY(MappedFile::open(path, "a saved chat"));
  const std::string_view text = file.text();
  const size_t end = text.substr(0, kMostSavedHeader).find('\n');
  if (end == std::string_view::npos) {
    return error(path + " is not a saved chat: it has no header.");
  }
  Result<nlohmann::json> value = parse_json(text.substr(0, end));
  if (!value.ok()) {
    return error(path + " is not a saved chat: " + value.sentence() + ".");
  }
  const JsonValue header = JsonValue::of(value.take_value(), path, end);
  const uint64_t format = TRY(header.number("format"));
  if (format != kSavedFormat) {
    return error(path + " has format " + std::to_string(format) + ", expected " + std::to_string(kSavedFormat) + ".");
  }
  if (TRY(header.text("program")) != identity) {
    return error(path + " was saved by another program, or with other data files; begin a new conversation.");
  }
  SavedChat chat;
  chat.cursor = TRY(read_cursor(TRY(header.at("cursor")), context));
  chat.history = TRY(read_tokens(header, "history"));
  uint64_t read = chat.cursor.read;
  for (const JsonValue& turn : TRY(header.items("turns"))) {
    chat.turns.push_back(TRY(read_cursor(turn, context)));
    read = std::max(read, chat.turns.back().read);
  }
  if (read > chat.history.size()) {
    return error(path + " is damaged: its counts of tokens contradict each other.");
  }
  std::string_view rest = text.substr(end + 1);
  uint64_t size = 0;
  for (const auto& part : memory) {
    size += part.size();
  }
  const auto checksums = TRY(header.items("checksums"));
  const nlohmann::json& sums = checksums.whole().value();
  const auto sizes = TRY(header.items("memory"));
  if (rest.size() != size || sizes.whole().value() != nlohmann::json(sizes_of(memory)) || sums.size() != memory.size()) {
    return error(path + " is damaged: got " + std::to_string(rest.size()) + " bytes behind its header, expected " +
                 std::to_string(size) + ".");
  }
  const std::string_view whole = rest;
  for (size_t i = 0; i < memory.size(); ++i) {
    const auto* const data = reinterpret_cast<const uint8_t*>(rest.data());
    if (sums[i] != sha256(data, memory[i].size())) {
      return error(path + " is damaged: its memory does not have the checksum that its header says.");
    }
    rest.remove_prefix(memory[i].size());
  }
  rest = whole;
  for (const auto& part : memory) {
    std::copy_n(rest.data(), part.size(), reinterpret_cast<char*>(part.data()));
    rest.remove_prefix(part.size());
  }
  return chat;
}

}  // namespace runner

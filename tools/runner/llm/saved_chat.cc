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

// The first two lines of a file are JSON: a header with the checksum of the second, and the conversation with those of
// the memory, which follows.
constexpr uint64_t kSavedFormat = 2;
constexpr size_t kMaxHeader = 4096;
constexpr size_t kMaxConversation = 64 << 20;

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
  if (!fits_context(cursor.read + cursor.unread.size(), context)) {
    return json.error_with("has " + std::to_string(cursor.read + cursor.unread.size()) +
                           " tokens, and the context holds " + std::to_string(context));
  }
  return cursor;
}

Result<SavedChat> read_conversation(const JsonValue& json, uint64_t context) {
  SavedChat chat;
  chat.cursor = TRY(read_cursor(TRY(json.at("cursor")), context));
  chat.history = TRY(read_tokens(json, "history"));
  uint64_t read = chat.cursor.read;
  for (const JsonValue& turn : TRY(json.items("turns"))) {
    chat.turns.push_back(TRY(read_cursor(turn, context)));
    read = std::max(read, chat.turns.back().read);
  }
  if (read > chat.history.size()) {
    return json.error_with("is damaged: its counts of tokens contradict each other");
  }
  return chat;
}

// An error, if the bytes are not those that the conversation says, or do not fit into `memory`.
Status check_memory(const JsonValue& json, std::string_view bytes, const ChatMemory& memory) {
  uint64_t size = 0;
  for (const auto& part : memory) {
    size += part.size();
  }
  const auto checksums = TRY(json.items("checksums"));
  const nlohmann::json& sums = checksums.whole().value();
  const auto sizes = TRY(json.items("memory"));
  if (bytes.size() != size || sizes.whole().value() != nlohmann::json(sizes_of(memory)) || sums.size() != memory.size()) {
    return json.error_with(
        "is damaged: got " + std::to_string(bytes.size()) + " bytes behind its header, expected " + std::to_string(size));
  }
  for (size_t i = 0; i < memory.size(); ++i) {
    if (sums[i] != sha256(reinterpret_cast<const uint8_t*>(bytes.data()), memory[i].size())) {
      return json.error_with("is damaged: its memory does not have the checksum that its header says");
    }
    bytes.remove_prefix(memory[i].size());
  }
  return {};
}

std::string sha256_of(std::string_view text) {
  return sha256(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

// The next line, which it takes from `rest`.
Result<std::string_view> take_line(std::string_view& rest, size_t most, const std::string& path) {
  const size_t end = rest.substr(0, most).find('\n');
  if (end == std::string_view::npos) {
    return error(path + " is not a saved chat: it has no header.");
  }
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return line;
}

Result<JsonValue> read_json(std::string_view line, const std::string& path) {
  Result<nlohmann::json> value = parse_json(line);
  if (!value.ok()) {
    return error(path + " is not a saved chat: " + value.sentence() + ".");
  }
  return JsonValue::of(value.take_value(), path, line.size());
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
  const nlohmann::json conversation = {
      {"checksums", checksums},
      {"cursor", described(chat.cursor)},
      {"history", chat.history},
      {"memory", sizes_of(memory)},
      {"turns", turns},
  };
  const std::string second = conversation.dump() + "\n";
  const nlohmann::json header = {
      {"format", kSavedFormat}, {"program", identity}, {"sha256", sha256_of(second)}};
  const std::string first = header.dump() + "\n";
  std::vector<std::string_view> pieces = {first, second};
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
  std::string_view rest = file.text();
  const JsonValue header = TRY(read_json(TRY(take_line(rest, kMaxHeader, path)), path));
  const uint64_t format = TRY(header.number("format"));
  if (format != kSavedFormat) {
    return error(path + " has format " + std::to_string(format) + ", expected " + std::to_string(kSavedFormat) +
                 "; begin a new conversation.");
  }
  if (TRY(header.text("program")) != identity) {
    return error(path + " was saved by another program, or with other data files; begin a new conversation.");
  }
  const std::string checksum = TRY(header.text("sha256"));
  const std::string_view line = TRY(take_line(rest, kMaxConversation, path));
  if (sha256_of(std::string(line) + "\n") != checksum) {
    return error(path + " is damaged: its conversation does not have the checksum that its header says.");
  }
  const JsonValue conversation = TRY(read_json(line, path));
  SavedChat chat = TRY(read_conversation(conversation, context));
  TRY(check_memory(conversation, rest, memory));
  for (const auto& part : memory) {
    std::copy_n(rest.data(), part.size(), reinterpret_cast<char*>(part.data()));
    rest.remove_prefix(part.size());
  }
  return chat;
}

}  // namespace runner

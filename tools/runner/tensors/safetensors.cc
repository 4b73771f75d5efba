#include "tools/runner/tensors/safetensors.h"

#include <cstring>

#include "tools/runner/base/fail.h"
#include "tools/runner/base/json.h"
#include "tools/runner/base/json_depth.h"
#include "tools/runner/base/mapped_file.h"
#include "tools/runner/base/output.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kLengthSize = 8;
constexpr char kMetadata[] = "__metadata__";

[[noreturn]] void damaged(const std::string& path, const std::string& how) {
  fail(path + " is not a .safetensors file that the runner reads: " + how + ".");
}

std::string text_in(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  return found != entry.end() && found->is_string() ? found->get<std::string>() : "";
}

// Numbers of a list that are sizes; empty if it isn't one.
bool read_sizes(const Json& entry, const char* key, std::vector<int64_t>& sizes) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) {
    return false;
  }
  for (const Json& size : *found) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > INT64_MAX) {
      return false;
    }
    sizes.push_back(size.get<int64_t>());
  }
  return true;
}

const Json& entry_of(const Json& header, const std::string& name, const std::string& path) {
  const auto found = header.find(name);
  if (found != header.end() && found->is_object() && name != kMetadata) {
    return *found;
  }
  std::string names;
  for (auto entry = header.begin(); entry != header.end() && names.size() < 200; ++entry) {
    if (entry.key() != kMetadata) {
      names += (names.empty() ? "" : ", ") + entry.key();
    }
  }
  fail(path + " has no tensor \"" + name + "\"; it has: " + (names.empty() ? "none" : names) +
       ". Choose one with " + path + ":NAME.");
}

}  // namespace

Array read_safetensor(const std::string& path, const std::string& name) {
  const MappedFile file(path, "an input");
  uint64_t length = 0;
  if (file.size() < kLengthSize) {
    damaged(path, "it is truncated");
  }
  memcpy(&length, file.data(), kLengthSize);
  if (length > file.size() - kLengthSize) {
    damaged(path, "it is truncated, or doesn't start with the size of its header");
  }
  const std::string_view text = file.text().substr(kLengthSize, length);
  if (is_nested_too_deeply(text)) {
    damaged(path, "its header is nested too deeply");
  }
  const Json header = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!header.is_object()) {
    damaged(path, "its header is no JSON object");
  }
  const Json& entry = entry_of(header, name, path);
  const std::string what = "tensor \"" + name + "\" ";
  Array array;
  array.dtype = dtype_of_safetensors(text_in(entry, "dtype"));
  if (array.dtype == nullptr) {
    damaged(path, what + "is " + text_in(entry, "dtype") + ", wanted one of " + dtype_names());
  }
  std::vector<int64_t> place;
  if (!read_sizes(entry, "shape", array.shape) || !read_sizes(entry, "data_offsets", place) ||
      place.size() != 2) {
    damaged(path, what + "lacks a shape or offsets of data");
  }
  const uint64_t available = file.size() - kLengthSize - length;
  const int64_t wanted = bytes_of(*array.dtype, array.shape);
  const auto start = static_cast<uint64_t>(place[0]), end = static_cast<uint64_t>(place[1]);
  if (start > end || end > available || wanted < 0 || static_cast<uint64_t>(wanted) != end - start) {
    damaged(path, what + "has data outside of the file, or of another size than its shape's");
  }
  const uint8_t* data = file.data() + kLengthSize + length;
  array.data.assign(data + start, data + end);
  return array;
}

void write_safetensors(
    const std::string& path,
    const std::vector<std::pair<std::string, Array>>& tensors) {
  Json header = Json::object();
  uint64_t offset = 0;
  for (const auto& [name, array] : tensors) {
    const uint64_t end = offset + array.data.size();
    header[name] = {
        {"dtype", array.dtype->safetensors}, {"shape", array.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string head(kLengthSize, '\0');
  memcpy(&head[0], &length, kLengthSize);
  std::vector<std::string_view> pieces = {head, text};
  for (const auto& [name, array] : tensors) {
    pieces.emplace_back(reinterpret_cast<const char*>(array.data.data()), array.data.size());
  }
  write_file(path, pieces);
}

}  // namespace runner

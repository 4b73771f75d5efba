#include "tools/runner/files/manifest.h"

#include "tools/runner/base/files.h"
#include "tools/runner/base/json.h"

namespace runner {
namespace {

constexpr uint64_t kFormat = 1;

Result<Manifest::Key> read_key(const JsonValue& json, bool by_name) {
  Manifest::Key key;
  key.sha256 = TRY(json.text("sha256"));
  key.size = TRY(json.number("size"));
  key.by_name = by_name;
  if (json.has("crc32")) {
    key.crc32 = static_cast<uint32_t>(TRY(json.number("crc32", UINT32_MAX)));
  }
  return key;
}

Result<Manifest::Data> read_data(const JsonValue& json, const std::string& path) {
  Manifest::Data data;
  data.file = TRY(json.text("file"));
  data.label = TRY(json.text("label"));
  data.kind = TRY(json.text("kind"));
  if (!is_plain_name(data.file)) {
    return error(path + " names the data file \"" + data.file + "\", expected a base name.");
  }
  for (const auto& [name, key] : TRY(json.members("keys"))) {
    const bool by_name = TRY(key.flag("by_name"));
    data.keys[name] = TRY(read_key(key, by_name));
  }
  return data;
}

Status read_weight_cache(const JsonValue& json, Manifest& manifest) {
  manifest.weight_cache_safe = TRY(json.flag("safe"));
  for (const JsonValue& reason : TRY(json.items("reasons"))) {
    manifest.weight_cache_reasons.push_back(TRY(reason.as_text()));
  }
  if (json.has("packed")) {
    manifest.packed.emplace();
    for (const auto& [name, digest] : TRY(json.members("packed"))) {
      (*manifest.packed)[name] = TRY(digest.as_text());
    }
  }
  if (json.has("packed_of_adapter")) {
    manifest.packed_of_adapter.emplace();
    const JsonValue listed = TRY(json.at("packed_of_adapter"));
    for (auto item = listed.value().begin(); item != listed.value().end(); ++item) {
      std::vector<std::string>& of_weight = (*manifest.packed_of_adapter)[item.key()];
      for (const JsonValue& key : TRY(listed.items(item.key()))) {
        of_weight.push_back(TRY(key.as_text()));
      }
    }
  }
  return {};
}

}  // namespace

Result<Manifest> read_manifest(const std::string& path) {
  const JsonValue json = TRY(JsonValue::read(path, "a manifest"));
  const uint64_t format = TRY(json.number("format"));
  if (format != kFormat) {
    return error(path + " has format " + std::to_string(format) +
                 ", expected 1; use the runner of the rules that built it.");
  }
  Manifest manifest;
  manifest.path = path;
  manifest.label = TRY(json.text("label"));
  manifest.interface = TRY(json.text("interface"));
  const JsonValue program = TRY(json.at("program"));
  manifest.program = TRY(read_key(program, false));
  for (const JsonValue& data : TRY(json.items("data"))) {
    manifest.data.push_back(TRY(read_data(data, path)));
  }
  TRY(read_weight_cache(TRY(json.at("weight_cache")), manifest));
  return manifest;
}

Result<AdapterIndex> read_adapter_index(const std::string& path) {
  const JsonValue json = TRY(JsonValue::read(path, "an adapter's index"));
  AdapterIndex index;
  index.path = path;
  index.label = json.has("label") ? TRY(json.text("label")) : "";
  index.interface = TRY(json.text("interface"));
  for (const JsonValue& entry : TRY(json.items("entries"))) {
    const std::string key = TRY(entry.text("key"));
    index.entries[key] = TRY(read_key(entry, false));
  }
  return index;
}

}  // namespace runner

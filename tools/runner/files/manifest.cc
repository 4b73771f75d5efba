#include "tools/runner/files/manifest.h"

#include "tools/runner/base/fail.h"
#include "tools/runner/base/json_reader.h"

namespace runner {
namespace {

constexpr uint64_t kFormat = 1;

std::optional<uint32_t> read_crc32(const JsonReader& json) {
  return json.has("crc32") ? std::optional<uint32_t>(json.number("crc32")) : std::nullopt;
}

Manifest::Data read_data(const JsonReader& json, const std::string& path) {
  Manifest::Data data;
  data.file = json.text("file");
  data.label = json.text("label");
  data.kind = json.text("kind");
  if (data.file.empty() || data.file.find('/') != std::string::npos) {
    fail(path + " names the data file \"" + data.file + "\", wanted a base name.");
  }
  for (const auto& [key, value] : json.members("keys")) {
    data.keys[key] = {value.text("sha256"), value.number("size"), value.flag("by_name"),
                      read_crc32(value)};
  }
  return data;
}

}  // namespace

Manifest read_manifest(const std::string& path) {
  const JsonReader json = JsonReader::read(path, "a manifest");
  if (json.number("format") != kFormat) {
    fail(path + " has format " + std::to_string(json.number("format")) +
         ", wanted 1; use the runner of the rules that built it.");
  }
  Manifest manifest;
  manifest.path = path;
  manifest.label = json.text("label");
  manifest.interface = json.text("interface");
  manifest.program_sha256 = json.at("program").text("sha256");
  manifest.program_size = json.at("program").number("size");
  manifest.program_crc32 = read_crc32(json.at("program"));
  for (const JsonReader& data : json.list("data")) {
    manifest.data.push_back(read_data(data, path));
  }
  const JsonReader cache = json.at("weight_cache");
  manifest.weight_cache_safe = cache.flag("safe");
  for (const JsonReader& reason : cache.list("reasons")) {
    manifest.weight_cache_reasons.push_back(reason.as_text());
  }
  if (cache.has("packed")) {
    manifest.packed.emplace();
    for (const auto& [key, digest] : cache.members("packed")) {
      (*manifest.packed)[key] = digest.as_text();
    }
  }
  return manifest;
}

AdapterIndex read_adapter_index(const std::string& path) {
  const JsonReader json = JsonReader::read(path, "an adapter's index");
  AdapterIndex index;
  index.path = path;
  index.interface = json.text("interface");
  for (const JsonReader& entry : json.list("entries")) {
    index.entries[entry.text("key")] = {entry.text("sha256"), entry.number("size"), false,
                                        read_crc32(entry)};
  }
  return index;
}

}  // namespace runner

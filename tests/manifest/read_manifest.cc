// Reads manifests as the runner does: read_manifest FILE...
//
// Prints a line for each: what the reader makes of it as JSON, or "error: " and what is wrong with it.

#include <cstdio>
#include <string>

#include "tools/runner/base/json.h"
#include "tools/runner/files/manifest.h"

namespace {

using nlohmann::json;
using runner::Manifest;

json described(const Manifest::File& file) {
  json keys = json::object();
  for (const auto& [name, key] : file.keys) {
    keys[name] = {key.sha256, key.size, key.crc32, key.by_name};
  }
  return {
      {"label", file.label},
      {"size", file.size},
      {"sha256", file.sha256},
      {"crc32", file.crc32 ? json(*file.crc32) : json()},
      {"keys", keys}};
}

json described(const runner::DeclaredInput& input) {
  json sizes = json::array();
  for (const runner::DeclaredSize& size : input.sizes) {
    sizes.push_back({size.min, size.max, size.symbol, size.times, size.plus});
  }
  return {{"input", input.input}, {"name", input.name}, {"sizes", sizes}};
}

json described(const Manifest::Program& program) {
  json declared = json::object();
  for (const auto& [method, inputs] : program.declared) {
    for (const runner::DeclaredInput& input : inputs) {
      declared[method].push_back(described(input));
    }
  }
  json cache;
  if (program.packing != nullptr) {
    cache = {
        {"reasons", program.packing->reasons},
        {"packed", program.packing->packed},
        {"of_adapter", program.packing->of_adapter}};
  }
  return {
      {"label", program.label},
      {"file", program.file},
      {"data", program.data},
      {"adapter", program.adapter},
      {"interface", program.interface},
      {"declared", declared},
      {"weight_cache", cache}};
}

json described(const Manifest& manifest) {
  json files = json::object();
  for (const auto& [path, file] : manifest.files) {
    files[path] = described(file);
  }
  json programs = json::object();
  for (const Manifest::Program& program : manifest.programs) {
    programs[program.name] = described(program);
  }
  json variants = json::object();
  for (const auto& [name, listed] : manifest.variants) {
    for (const Manifest::Variant& variant : listed) {
      json conditions = json::array();
      for (const Manifest::Condition& c : variant.conditions) {
        conditions.push_back({c.fact, c.any_of, c.at_least, c.below});
      }
      variants[name].push_back({variant.program, conditions});
    }
  }
  return {
      {"label", manifest.label},
      {"files", files},
      {"programs", programs},
      {"variants", variants},
      {"code", manifest.code}};
}

}  // namespace

int main(int count, char** values) {
  for (int i = 1; i < count; ++i) {
    const auto manifest = runner::read_manifest(values[i]);
    const std::string line = (manifest.ok() ? described(*manifest).dump() : "error: " + manifest.sentence()) + "\n";
    // Sentences may have any character of a file's names.
    fwrite(line.data(), 1, line.size(), stdout);
  }
  return 0;
}

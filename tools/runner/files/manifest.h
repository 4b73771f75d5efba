// The linker's description of a program and its data files: <name>.manifest.json.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/runner/base/result.h"

namespace runner {

struct Manifest {
  struct Key {
    std::string sha256;
    uint64_t size = 0;
    // Its name does not depend on its bytes: the runtime would silently accept others.
    bool by_name = false;
    // Checked on every start; none: not in the manifest.
    std::optional<uint32_t> crc32;
  };

  struct Data {
    std::string file;  // Base name.
    std::string label;
    std::string kind;  // "shared", "own" or "adapter".
    std::map<std::string, Key> keys;
  };

  std::string path;
  std::string label;
  std::string interface;  // Programs and adapters with the same one fit together.
  Key program;
  std::vector<Data> data;
  bool weight_cache_safe = false;
  std::vector<std::string> weight_cache_reasons;
  // XNNPACK's name of packed weights to a digest of their contents; none: not listed.
  std::optional<std::map<std::string, std::string>> packed;
  // The same names to the adapter's keys that they contain; none: not listed.
  std::optional<std::map<std::string, std::vector<std::string>>> packed_of_adapter;
};

// An error, if the file is missing or not a manifest.
Result<Manifest> read_manifest(const std::string& path);

// An adapter's <name>.index.json: its interface and its contents.
struct AdapterIndex {
  std::string path;
  std::string label;
  std::string interface;
  std::map<std::string, Manifest::Key> entries;
};

// An error, if the file is not an index.
Result<AdapterIndex> read_adapter_index(const std::string& path);

}  // namespace runner

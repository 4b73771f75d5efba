// What the linker wrote about a program and its data files: <name>.manifest.json.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace runner {

struct Manifest {
  struct Key {
    std::string sha256;
    uint64_t size = 0;
    // Found by a name that says nothing of its bytes: the runtime would accept others silently.
    bool by_name = false;
    // Checked on every start; none: the manifest doesn't have it.
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
  std::string program_sha256;
  uint64_t program_size = 0;
  std::optional<uint32_t> program_crc32;
  std::vector<Data> data;
  bool weight_cache_safe = false;
  std::vector<std::string> weight_cache_reasons;
  // XNNPACK's name of packed weights to a digest of all that is packed; none: not listed.
  std::optional<std::map<std::string, std::string>> packed;
};

// Ends the process with a sentence if the file is missing or no manifest.
Manifest read_manifest(const std::string& path);

// An adapter's <name>.index.json: what it fits and what it holds.
struct AdapterIndex {
  std::string path;
  std::string interface;
  std::map<std::string, Manifest::Key> entries;
};

// Ends the process with a sentence if the file is no index.
AdapterIndex read_adapter_index(const std::string& path);

}  // namespace runner

// A manifest: programs, the files that they load, and the bytes of each file. That of a program, an app, a package and a
// release are the same document; tools/etlink/manifest.py writes it, and tests/manifest has cases for both readers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/runner/base/result.h"

namespace runner {

// Element type and shape of a tensor that the runtime itself loads.
struct KeyLayout {
  int8_t scalar_type = 0;  // As in scalar_type.fbs: 6 is float32.
  std::vector<int32_t> sizes;
  std::vector<uint8_t> dim_order;  // Dimensions from outer to inner.

  bool operator==(const KeyLayout& other) const {
    return scalar_type == other.scalar_type && sizes == other.sizes && dim_order == other.dim_order;
  }
};

// Sizes of a dimension, or values of a whole number: from `min` to `max`, and `times * symbol + plus`, where all
// dimensions with one symbol have one value of it; "": of none.
struct DeclaredSize {
  int64_t min = 0;
  int64_t max = 0;
  std::string symbol;
  int64_t times = 1;
  int64_t plus = 0;
};

// An input with a dynamic dimension, and the sizes of all its dimensions.
struct DeclaredInput {
  size_t input = 0;
  std::string name;
  std::vector<DeclaredSize> sizes;
};

// Method to its inputs with a dynamic dimension.
using DeclaredInputs = std::map<std::string, std::vector<DeclaredInput>>;

// Keys to the sha256 of their bytes.
using Hashes = std::map<std::string, std::string>;

// The way in which XNNPACK's weights are packed for a program.
struct Packing {
  std::string label;
  std::string interface;
  std::vector<std::string> reasons;  // Why the weight cache is unsafe; none: it is safe for this program alone.
  // XNNPACK's name of packed weights to a digest of how they are packed.
  std::map<std::string, std::string> packed;
  // The same names to the adapter's keys that they contain.
  std::map<std::string, std::vector<std::string>> of_adapter;
  // The adapter's keys that are names, with the sha256 of their bytes.
  std::shared_ptr<const Hashes> adapter_hashes;
};

struct Manifest {
  struct Key {
    std::string sha256;
    uint64_t size = 0;
    uint32_t crc32 = 0;    // Checked on every start.
    bool by_name = false;  // Its name does not depend on its bytes: the runtime would silently accept others.
    std::optional<KeyLayout> layout;  // Of a tensor; none: a delegate's data, or not in the manifest.
  };

  struct File {
    std::string label;
    uint64_t size = 0;
    std::string sha256;             // "": not in the manifest.
    std::optional<uint32_t> crc32;  // Checked on every start; none: not in the manifest.
    std::map<std::string, Key> keys;
    // Of the keys that are names; one for all programs, of which a malformed file has many.
    std::shared_ptr<const Hashes> hashes_by_name;
  };

  struct Program {
    std::string name;
    std::string label;
    std::string file;
    std::vector<std::string> data;
    std::string adapter;    // The one of `data` that another adapter's file may replace; "": none.
    std::string interface;  // Programs and adapters with the same one fit together.
    std::shared_ptr<const Packing> packing;  // nullptr: not in the manifest.
    DeclaredInputs declared;
  };

  // Demand on a device: one of the texts is a value of its fact, or the fact's version is in a range.
  struct Condition {
    std::string fact;
    std::vector<std::string> any_of;  // None: not asked for.
    std::string at_least;             // "": the same.
    std::string below;
  };

  // One of the programs that stand for each other; it is for devices on which all conditions hold.
  struct Variant {
    std::string program;
    std::vector<Condition> conditions;
  };

  std::string path;
  std::string folder;  // All paths are relative to it; ends with a slash.
  std::string label;
  std::map<std::string, File> files;  // By path.
  std::vector<Program> programs;      // Sorted by name; those in a release's archives are left out.
  std::map<std::string, std::vector<Variant>> variants;  // The best first.
  std::set<std::string> code;         // The binary and its libraries; an installed app may have them elsewhere.

  const File& file(const std::string& of) const { return files.find(of)->second; }
  // nullptr: there is no program of that name.
  const Program* find(const std::string& name) const;
};

// An error, if the file is missing or not a manifest.
Result<Manifest> read_manifest(const std::string& path);

// The program whose data may be replaced, and these data; nullptr: the manifest is not that of an adapter.
std::pair<const Manifest::Program*, const Manifest::File*> adapter_of(const Manifest& manifest);

// An error, if a file is missing or has another size than the built one; with `verify` also if it has other bytes.
// Files that only variants need are not looked at: a device may have those of its own variant alone.
Status check_listed_files(const Manifest& manifest, bool verify);

}  // namespace runner

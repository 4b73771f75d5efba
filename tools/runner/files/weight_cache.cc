#include "tools/runner/files/weight_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tools/runner/base/checksum.h"
#include "tools/runner/base/result.h"
#include "tools/runner/files/flatbuffer.h"

namespace runner {
namespace {

using Keys = std::map<std::string, uint64_t>;

// As upstream's XNNPACK exporter names the scales of quantized weights.
constexpr char kScalePrefix[] = "scale_";

// Of an XNNPACK payload: u32, magic, u16 length, then u32: offset and size of the flatbuffer, offset of constants; u64.
constexpr uint64_t kPayloadHead = 30;
// Fields of upstream's schema.fbs.
constexpr int kConstantsField = 8;
constexpr int kKeyField = 2;

bool is_scale(const std::string& key) {
  return key.rfind(kScalePrefix, 0) == 0;
}

Status check_alone(const Manifest& manifest) {
  if (manifest.weight_cache_safe) {
    return {};
  }
  std::string reasons;
  for (const std::string& reason : manifest.weight_cache_reasons) {
    reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  return error("--weight_cache is unsafe for " + manifest.label + ": " +
       (reasons.empty() ? "its manifest says so" : reasons) + "; run without it.");
}

// A weight of both; "": none.
std::string common_weight(const Keys& first, const Keys& second) {
  for (const auto& [key, size] : first) {
    if (!is_scale(key) && second.count(key) != 0) {
      return key;
    }
  }
  return "";
}

// Whether `first` has a scale that `second` lacks, while `second` has one of the same size.
bool may_scale_otherwise(const Keys& first, const Keys& second) {
  std::set<uint64_t> sizes;
  for (const auto& [key, size] : second) {
    if (is_scale(key)) {
      sizes.insert(size);
    }
  }
  for (const auto& [key, size] : first) {
    if (is_scale(key) && second.count(key) == 0 && sizes.count(size) != 0) {
      return true;
    }
  }
  return false;
}

// The adapter's keys by name, with the sha256 of their bytes.
std::map<std::string, std::string> hashes_of_adapter(const Manifest& manifest) {
  std::map<std::string, std::string> hashes;
  for (const Manifest::Data& data : manifest.data) {
    for (const auto& [key, held] : data.keys) {
      if (data.kind == "adapter" && held.by_name) {
        hashes[key] = held.sha256;
      }
    }
  }
  return hashes;
}

// A key as long as `key`; behind a hash follows the beginning of longer ones.
std::string content_key(const std::string& interface, const std::string& key, const std::string& digest) {
  const std::string parts = interface + " " + key + " " + digest;
  return (sha256(reinterpret_cast<const uint8_t*>(parts.data()), parts.size()) + key).substr(0, key.size());
}

// XNNPACK's name of a packed weight, the keys of weight and bias in a row, with content keys; "": the name does not
// tell which keys these are.
std::string content_name(const std::string& name, const Keys& keys, const ContentKeys& content_keys) {
  const auto seen = [&content_keys](const std::string& key) {
    const auto replaced = content_keys.find(key);
    return replaced == content_keys.end() ? key : replaced->second;
  };
  std::set<std::string> replacements;
  for (size_t length = 1; length <= name.size(); ++length) {
    const std::string weight = name.substr(0, length);
    if (keys.count(weight) == 0) {
      continue;
    }
    const std::string bias = name.substr(length);
    if (bias.empty() || keys.count(bias) != 0) {
      replacements.insert(seen(weight) + seen(bias));
    }
  }
  return replacements.size() == 1 ? *replacements.begin() : "";
}

Status check_pair(const CacheUse& first, const CacheUse& second) {
  const bool is_exact =
      first.manifest && first.manifest->packed && second.manifest && second.manifest->packed;
  const std::string names = first.program + " and " + second.program;
  if (is_exact) {
    for (const auto& [key, digest] : *first.manifest->packed) {
      const auto other = second.manifest->packed->find(key);
      if (other != second.manifest->packed->end() && other->second != digest) {
        return error("--weight_cache is unsafe for " + names + " together: they pack \"" + key +
             "\" in different ways; run them without it, or in two processes.");
      }
    }
    return {};
  }
  for (const std::string& name : first.names) {
    if (second.names.count(name) != 0) {
      return error("--weight_cache may be unsafe for " + names + " together: both load \"" + name +
           "\", a name whose data may differ; run them with their manifests, without it, or in two processes.");
    }
  }
  const std::string weight = common_weight(first.keys, second.keys);
  if (!weight.empty() &&
      (may_scale_otherwise(first.keys, second.keys) || may_scale_otherwise(second.keys, first.keys))) {
    return error("--weight_cache may be unsafe for " + names +
         " together: they have weights in common (\"" + weight +
         "\") and scales that differ; run them without it, or in two processes.");
  }
  return {};
}

}  // namespace

void pack_adapter(Manifest& manifest, const AdapterIndex& adapter) {
  for (Manifest::Data& data : manifest.data) {
    for (auto& [key, held] : data.keys) {
      const auto other = adapter.entries.find(key);
      if (data.kind == "adapter" && other != adapter.entries.end()) {
        held.sha256 = other->second.sha256;
      }
    }
  }
  if (!manifest.packed) {
    return;
  }
  std::string all;
  for (const auto& [key, held] : adapter.entries) {
    all += held.sha256;
  }
  const std::string any = sha256(reinterpret_cast<const uint8_t*>(all.data()), all.size());
  for (auto& [name, digest] : *manifest.packed) {
    if (!manifest.packed_of_adapter) {
      // Any packed weight may depend on any weight of the adapter.
      digest += " " + any;
      continue;
    }
    const auto keys = manifest.packed_of_adapter->find(name);
    if (keys != manifest.packed_of_adapter->end()) {
      for (const std::string& key : keys->second) {
        const auto held = adapter.entries.find(key);
        digest += " " + (held == adapter.entries.end() ? "" : held->second.sha256);
      }
    }
  }
}

bool is_hash_key(const std::string& key) {
  constexpr size_t kHash = 64;
  return key.size() >= kHash && key.find_first_not_of("0123456789abcdef", key.size() - kHash) == std::string::npos;
}

ContentKeys use_content_keys(CacheUse& use) {
  if (!use.manifest || !use.manifest->packed || !use.manifest->packed_of_adapter) {
    return {};
  }
  Manifest& manifest = *use.manifest;
  const std::map<std::string, std::string> hashes = hashes_of_adapter(manifest);
  ContentKeys content_keys;
  std::set<std::string> unique;
  for (const auto& [key, digest] : hashes) {
    content_keys[key] = content_key(manifest.interface, key, digest);
    // Short keys leave few characters of the hash.
    if (use.keys.count(content_keys[key]) != 0 || !unique.insert(content_keys[key]).second) {
      return {};
    }
  }
  std::map<std::string, std::string> packed = *manifest.packed;
  for (const auto& [name, keys] : *manifest.packed_of_adapter) {
    const std::string replacement = content_name(name, use.keys, content_keys);
    if (replacement.empty()) {
      return {};
    }
    if (replacement == name || packed.erase(name) == 0) {
      continue;
    }
    // Programs of one interface have the same payloads, so they pack the same bytes in the same way.
    std::string digest = manifest.interface;
    for (const std::string& key : keys) {
      const auto held = hashes.find(key);
      digest += " " + (held == hashes.end() ? "" : held->second);
    }
    if (!packed.emplace(replacement, std::move(digest)).second) {
      return {};
    }
  }
  manifest.packed = std::move(packed);
  return content_keys;
}

bool replace_keys(uint8_t* payload, uint64_t size, const ContentKeys& content_keys) {
  if (size < kPayloadHead || memcmp(payload + 4, "XH00", 4) != 0) {
    return false;
  }
  FlatBuffer head(payload, size);
  const uint64_t start = head.read<uint32_t>(10);
  const uint64_t length = head.read<uint32_t>(14);
  if (start > size || length > size - start) {
    return false;
  }
  uint8_t* tables = payload + start;
  FlatBuffer graph(tables, length);
  const FlatBuffer::Vector constants = graph.vector(graph.root(), kConstantsField, 4);
  for (uint32_t i = 0; i < constants.length && !graph.damaged(); ++i) {
    const uint64_t constant = graph.table_in(constants, i);
    // Constants without a key lie in the payload.
    if (graph.field(constant, kKeyField) == 0) {
      continue;
    }
    const std::string_view key = graph.string(constant, kKeyField);
    const auto replaced = content_keys.find(std::string(key));
    if (!graph.damaged() && replaced != content_keys.end()) {
      const auto offset = reinterpret_cast<const uint8_t*>(key.data()) - tables;
      memcpy(tables + offset, replaced->second.data(), key.size());
    }
  }
  return !graph.damaged();
}

Status check_weight_cache(const std::vector<CacheUse>& programs) {
  for (size_t i = 0; i < programs.size(); ++i) {
    if (programs[i].manifest) {
      TRY(check_alone(*programs[i].manifest));
    }
    for (size_t j = 0; j < i; ++j) {
      TRY(check_pair(programs[j], programs[i]));
    }
  }
  return {};
}

bool lists_packed_weights(const std::vector<CacheUse>& programs) {
  return std::all_of(programs.begin(), programs.end(), [](const CacheUse& use) {
    return use.manifest && use.manifest->packed;
  });
}

}  // namespace runner

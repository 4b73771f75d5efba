#include "tools/runner/files/weight_cache.h"

#include <atomic>
#include <cstring>
#include <string_view>
#include <utility>

#include "tools/runner/base/checksum.h"
#include "tools/runner/base/lock.h"
#include "tools/runner/base/result.h"
#include "tools/runner/files/flatbuffer.h"

namespace runner {
namespace {

// Versions of ExecuTorch of whose XNNPACK the linker knows what the names consist of.
constexpr const char* kKnownRuntimes[] = {"1.3.", "1.4.", "1.5."};

// Of an XNNPACK payload: u32, magic, u16 length, then u32: offset and size of the flatbuffer, offset of constants; u64.
constexpr uint64_t kPayloadHead = 30;
// Fields of upstream's schema.fbs.
constexpr int kConstantsField = 8;
constexpr int kKeyField = 2;

Status check_runtime(const std::string& version) {
  for (const char* known : kKnownRuntimes) {
    if (version.rfind(known, 0) == 0) {
      return {};
    }
  }
  return error("--weight_cache may be unsafe with this runtime: its version is " +
       (version.empty() ? "unknown" : version) + ", expected one from 1.3 to 1.5; run without it.");
}

Status check_alone(const CacheUse& use) {
  if (use.packing != nullptr && !use.packing->reasons.empty()) {
    std::string reasons;
    for (const std::string& reason : use.packing->reasons) {
      reasons += (reasons.empty() ? "" : "; ") + reason;
    }
    return error("--weight_cache is unsafe for " + use.packing->label + ": " + reasons + "; run without it.");
  }
  if (use.packing == nullptr) {
    return error("--weight_cache may be unsafe for " + use.program +
         ": no manifest says how its weights are packed; run it with its manifest, or without the cache.");
  }
  return {};
}

// A key as long as `key`; behind a hash follows the beginning of longer ones.
std::string content_key(const std::string& interface, const std::string& key, const std::string& digest) {
  const std::string parts = interface + " " + key + " " + digest;
  return (sha256(reinterpret_cast<const uint8_t*>(parts.data()), parts.size()) + key).substr(0, key.size());
}

// XNNPACK's name of a packed weight, the keys of weight and bias in a row, with content keys; "": the name does not
// tell which keys these are.
std::string content_name(
    const std::string& name,
    const std::set<std::string>& keys,
    const ContentKeys& content_keys) {
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

// The names that some programs pack, each with its digest and the first program that packs it. Refers to the programs.
class PackedNames {
 public:
  // An error, if a program packs one of the names in another way.
  Status add(const CacheUse& use) {
    if (!packings_.insert(use.packing.get()).second) {
      return {};
    }
    for (const auto& [name, digest] : use.packing->packed) {
      const auto& [program, other] = names_.try_emplace(name, &use.program, &digest).first->second;
      if (*other != digest) {
        return error("--weight_cache is unsafe for " + *program + " and " + use.program +
             " together: they pack \"" + name + "\" in different ways; run them without it, or in two processes.");
      }
    }
    return {};
  }

 private:
  std::set<const Packing*> packings_;
  std::map<std::string_view, std::pair<const std::string*, const std::string*>> names_;
};

std::atomic_flag leases_are_locked = ATOMIC_FLAG_INIT;

// Never destroyed: threads may still run when the process ends.
std::vector<std::weak_ptr<const CacheUse>>& all_leases() {
  static auto* leases = new std::vector<std::weak_ptr<const CacheUse>>();
  return *leases;
}

}  // namespace

std::shared_ptr<const Packing> pack_adapter(const Packing& packing, const Manifest::File& adapter) {
  auto packed = std::make_shared<Packing>(packing);
  Hashes hashes = packing.adapter_hashes == nullptr ? Hashes() : *packing.adapter_hashes;
  for (auto& [key, digest] : hashes) {
    const auto other = adapter.keys.find(key);
    if (other != adapter.keys.end()) {
      digest = other->second.sha256;
    }
  }
  packed->adapter_hashes = std::make_shared<const Hashes>(std::move(hashes));
  for (const auto& [name, keys] : packing.of_adapter) {
    const auto digest = packed->packed.find(name);
    for (const std::string& key : keys) {
      const auto other = adapter.keys.find(key);
      if (digest != packed->packed.end()) {
        digest->second += " " + (other == adapter.keys.end() ? "" : other->second.sha256);
      }
    }
  }
  return packed;
}

ContentKeys use_content_keys(CacheUse& use) {
  if (use.packing == nullptr || use.packing->packed.empty() || use.packing->adapter_hashes == nullptr ||
      use.packing->adapter_hashes->empty()) {
    return {};
  }
  const Packing& packing = *use.packing;
  const Hashes& hashes = *packing.adapter_hashes;
  ContentKeys content_keys;
  std::set<std::string> unique;
  for (const auto& [key, digest] : hashes) {
    content_keys[key] = content_key(packing.interface, key, digest);
    // Short keys leave few characters of the hash.
    if (use.keys.count(content_keys[key]) != 0 || !unique.insert(content_keys[key]).second) {
      return {};
    }
  }
  std::map<std::string, std::string> packed = packing.packed;
  for (const auto& [name, keys] : packing.of_adapter) {
    const std::string replacement = content_name(name, use.keys, content_keys);
    if (replacement.empty()) {
      return {};
    }
    if (replacement == name || packed.erase(name) == 0) {
      continue;
    }
    // Programs of one interface have the same payloads, so they pack the same bytes in the same way.
    std::string digest = packing.interface;
    for (const std::string& key : keys) {
      const auto held = hashes.find(key);
      digest += " " + (held == hashes.end() ? "" : held->second);
    }
    if (!packed.emplace(replacement, std::move(digest)).second) {
      return {};
    }
  }
  auto changed = std::make_shared<Packing>(packing);
  changed->packed = std::move(packed);
  use.packing = std::move(changed);
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

Result<std::vector<CacheLease>> lease_weight_cache(const std::vector<CacheUse>& programs, const std::string& runtime) {
  TRY(check_runtime(runtime));
  for (const CacheUse& program : programs) {
    TRY(check_alone(program));
  }
  const Lock lock(leases_are_locked);
  std::vector<CacheLease> others;
  for (const auto& lease : all_leases()) {
    if (CacheLease other = lease.lock()) {
      others.push_back(std::move(other));
    }
  }
  PackedNames names;
  for (const CacheLease& other : others) {
    TRY(names.add(*other));
  }
  std::vector<CacheLease> leases;
  for (const CacheUse& program : programs) {
    TRY(names.add(program));
    leases.push_back(std::make_shared<const CacheUse>(CacheUse{program.program, {}, program.packing}));
  }
  others.insert(others.end(), leases.begin(), leases.end());
  all_leases().assign(others.begin(), others.end());
  return leases;
}

}  // namespace runner

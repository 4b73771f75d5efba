#include "tools/runner/files/weight_cache.h"

#include <algorithm>
#include <set>

#include "tools/runner/base/checksum.h"
#include "tools/runner/base/result.h"

namespace runner {
namespace {

using Keys = std::map<std::string, uint64_t>;

// As upstream's XNNPACK exporter names the scales of quantized weights.
constexpr char kScalePrefix[] = "scale_";

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

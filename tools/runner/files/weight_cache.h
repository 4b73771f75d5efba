// Whether XNNPACK's weight cache is safe for the programs of one process.
//
// The cache finds packed weights by the names of weight and bias alone. Layers with equal integers
// and different scales have the same name, so all would get the weights of the first loaded layer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/runner/files/manifest.h"

namespace runner {

// What a program puts into the cache.
struct CacheUse {
  std::string program;  // Its file.
  std::map<std::string, uint64_t> keys;  // All data that it may load, with their sizes in bytes.
  std::optional<Manifest> manifest;
};

// Updates the manifest's digests of packed weights for a replacement adapter.
void pack_adapter(Manifest& manifest, const AdapterIndex& adapter);

// An error that says why the cache is unsafe, if it is.
//
// Exact if the manifests list packed weights. Otherwise refuses programs with a common weight and unequal
// scales of the same size; it cannot see scales inside of tables then.
Status check_weight_cache(const std::vector<CacheUse>& programs);

// Whether all programs have manifests that list packed weights, so that the check is exact.
bool lists_packed_weights(const std::vector<CacheUse>& programs);

}  // namespace runner

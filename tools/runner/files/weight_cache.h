// Whether XNNPACK's weight cache is safe for the programs of one process.
//
// The cache finds packed weights by the keys of weight and bias alone. Layers with equal integers
// and different scales have the same keys, so all would get the weights of the first loaded layer.
//
// Two adapters by name have the same keys, too. So while a program is loaded with the cache, XNNPACK sees other
// keys: `use_content_keys` derives one from each name and its bytes, `replace_keys` writes them into a copy of the
// payload, and the data map knows them beside the names. The invariant: a key that XNNPACK sees stands for the same
// bytes and the same way of packing in all programs of a process, or `check_weight_cache` refuses the programs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/runner/files/manifest.h"

namespace runner {

// What a program puts into the cache.
struct CacheUse {
  std::string program;  // Its file.
  std::map<std::string, uint64_t> keys;  // All data that it may load, with their sizes in bytes.
  std::set<std::string> names;  // Keys of delegates' data that are no hashes.
  std::optional<Manifest> manifest;
};

// Updates the manifest for a replacement adapter: the hashes of its keys, and the digests of packed weights.
void pack_adapter(Manifest& manifest, const AdapterIndex& adapter);

// Whether a delegate's key ends with a sha256.
bool is_hash_key(const std::string& key);

// An adapter's keys, which are names, to keys of the same length that depend on the bytes, too.
using ContentKeys = std::map<std::string, std::string>;

// Returns the keys that XNNPACK shall see instead of an adapter's, and lists them in the manifest's packed weights.
//
// Empty, with the manifest as it was, if there is no adapter by name, or if it is not certain which keys XNNPACK's name
// of a packed weight consists of. The cache is then refused for two such adapters.
ContentKeys use_content_keys(CacheUse& use);

// Replaces keys in an XNNPACK payload; false: it is damaged.
bool replace_keys(uint8_t* payload, uint64_t size, const ContentKeys& content_keys);

// An error that says why the cache is unsafe, if it is.
//
// Exact if the manifests list packed weights. Otherwise refuses programs with a common name, and those with a common
// weight and unequal scales of the same size; it cannot see scales inside of tables then.
Status check_weight_cache(const std::vector<CacheUse>& programs);

// Whether all programs have manifests that list packed weights, so that the check is exact.
bool lists_packed_weights(const std::vector<CacheUse>& programs);

}  // namespace runner

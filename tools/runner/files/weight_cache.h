// Whether XNNPACK's weight cache is safe for the programs of one process.
//
// The cache finds packed weights by the names of weight and bias alone. Layers with equal integers
// and other scales, which have the same name, would get the result of whichever was loaded first.
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
  std::map<std::string, uint64_t> keys;  // Of all data that it may load, with bytes.
  std::optional<Manifest> manifest;
};

// Makes what is packed of an adapter's weights that of another one, which stands in for it.
void pack_adapter(Manifest& manifest, const AdapterIndex& adapter);

// An error that says why the cache is unsafe, if it is.
//
// Exact where manifests list what is packed. Else programs with a weight in common and unequal
// scales of one size are refused; scales that are no data of their own can't be seen then.
Status check_weight_cache(const std::vector<CacheUse>& programs);

}  // namespace runner

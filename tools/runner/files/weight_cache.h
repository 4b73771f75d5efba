// Decides whether XNNPACK's weight cache is safe for the programs of one process.
//
// The cache finds a packed weight by its name, which is the key of the weight, for some operators with that of the bias.
// Layers with equal integers and different scales have the same name, so all would get the weights of the first loaded
// layer. Only the linker knows what a name stands for (etlink/weight_cache.py): programs without its manifest go without
// the cache.
//
// Two adapters by name have the same keys, too. So while a program is loaded with the cache, XNNPACK sees other
// keys: `use_content_keys` derives one from each name and its bytes, `replace_keys` writes them into a copy of the
// payload, and the data map knows them beside the names. The invariant: a key that XNNPACK sees stands for the same
// bytes and the same way of packing in all programs of a process, or `lease_weight_cache` refuses the programs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tools/runner/files/manifest.h"

namespace runner {

// A program's entries in the cache.
struct CacheUse {
  std::string program;  // Its file.
  std::set<std::string> keys;  // Of all data that it may load.
  std::shared_ptr<const Packing> packing;  // One for all loads of a program; nullptr: no manifest has it.
};

// Packs with a replacement adapter: other hashes of its keys, and other digests of packed weights.
std::shared_ptr<const Packing> pack_adapter(const Packing& packing, const Manifest::File& adapter);

// An adapter's keys, which are names, to keys of the same length that depend on the bytes, too.
using ContentKeys = std::map<std::string, std::string>;

// Returns the keys that XNNPACK shall see instead of an adapter's, and lists them in the packed weights.
//
// Empty, with the packed weights as they were, if there is no adapter by name, or if it is not certain which keys XNNPACK's name
// of a packed weight consists of. The cache is then refused for two such adapters.
ContentKeys use_content_keys(CacheUse& use);

// Replaces keys in an XNNPACK payload; false: it is damaged.
bool replace_keys(uint8_t* payload, uint64_t size, const ContentKeys& content_keys);

// The right to load a program with the cache, while it exists.
using CacheLease = std::shared_ptr<const CacheUse>;

// A lease for each of some programs, if these are safe together and beside all leases of this process: XNNPACK has one
// cache, whichever app a program is of. Else an error that says why not. `runtime` is the version of ExecuTorch.
Result<std::vector<CacheLease>> lease_weight_cache(const std::vector<CacheUse>& programs, const std::string& runtime);

}  // namespace runner

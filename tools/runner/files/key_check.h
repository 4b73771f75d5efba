// Whether a data file holds what a program was built with.
#pragma once

#include <optional>

#include "tools/runner/files/data_file.h"
#include "tools/runner/files/manifest.h"

namespace runner {

// Ends the process with a sentence if the file lacks a key of `entry`, or has other bytes for it.
//
// Hashes keys that say nothing of their bytes; with `verify` all keys. Another adapter may stand in
// for the entry's if its index has the program's interface; that index is what is returned.
std::optional<AdapterIndex> check_keys(
    const DataFile& file,
    const Manifest::Data& entry,
    const Manifest& manifest,
    bool verify);

}  // namespace runner

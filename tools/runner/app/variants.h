// Chooses one of the programs that stand for each other: the first whose conditions the device meets, and which loads.
#pragma once

#include <string>
#include <vector>

#include "tools/runner/app/chosen.h"
#include "tools/runner/app/device.h"
#include "tools/runner/files/manifest.h"

namespace runner {

// The reason for which the device does not meet a condition, as a part of a sentence; "": it does.
std::string unmet(const Manifest::Condition& condition, Device& device);

// Compares versions: numbers with dots, of which missing ones are 0. Negative, zero, positive as `first` is older, equal,
// newer. Texts that are no versions are older than all.
int compare_versions(const std::string& first, const std::string& second);

// Chooses the program of the variants `name`. The last one that the device meets is not tried: nothing is left to fall
// back to, so opening a session says why it does not load. An error, if none is for the device.
Result<ChosenVariant> choose_variant(
    const std::shared_ptr<const Manifest>& app,
    const std::string& name,
    const OpenOptions& options,
    Device& device,
    OpenDataFiles& open);

// {"program": ..., "skipped": [{"program": ..., "reason": ...}], "device": {...}}
std::string json_of(const ChosenVariant& chosen, const DeviceFacts& facts);

}  // namespace runner

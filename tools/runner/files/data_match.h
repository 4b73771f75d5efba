// Which file stands for which entry of a manifest.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/runner/files/data_file.h"
#include "tools/runner/files/manifest.h"

namespace runner {

// One file per entry of the manifest's `data`, in its order.
//
// Each of `paths` (--data) is matched by its base name, else by its keys, else as an adapter that
// has an index. What no path matches is where `known` says, by label or name, or beside the program.
DataFiles match_data(
    const Manifest& manifest,
    const std::string& program,
    const std::vector<std::string>& paths,
    const std::map<std::string, std::string>& known,
    OpenDataFiles& open);

// Where an adapter's index is.
std::string adapter_index_path(const std::string& data_path);

}  // namespace runner

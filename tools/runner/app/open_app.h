// Programs with their checked files, which stay mapped: what command line and C interface load programs from.
#pragma once

#include <string>
#include <vector>

#include "tools/runner/app/chosen.h"
#include "tools/runner/files/file_check.h"

namespace runner {

struct App {
  Chosen chosen;
  std::vector<CheckedFiles> files;  // One per chosen program.
  bool weight_cache = false;  // Whether XNNPACK packs equal weights of all programs once.
};

// An error, if a program does not exist, if a file is missing or damaged, or if --weight_cache is unsafe.
Result<App> open_app(const OpenOptions& options);

// A program's files with other data files.
struct OtherData {
  CheckedFiles files;
  bool weight_cache = false;  // Also safe beside the app's programs and `others`.
};

// Checks the data files that replace those of the program `index` of `app`, which was opened with `options`. `others`
// are uses of the weight cache beside the app's own. Errors as in open_app.
Result<OtherData> open_other_data(
    const App& app,
    const OpenOptions& options,
    size_t index,
    const std::vector<std::string>& data,
    const std::vector<CacheUse>& others);

}  // namespace runner

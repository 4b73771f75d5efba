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

// Checks the data files that replace those of the program `index` of `app`, which was opened with `options`. They are
// loaded with the weight cache, if the app is, and if that is safe beside what the process has loaded. Errors as in
// open_app.
Result<CheckedFiles> open_other_data(
    const App& app,
    const OpenOptions& options,
    size_t index,
    const std::vector<std::string>& data);

}  // namespace runner

// Programs with their checked files, which stay mapped: what command line and C interface load programs from.
#pragma once

#include <vector>

#include "tools/runner/app/chosen.h"
#include "tools/runner/arguments.h"
#include "tools/runner/files/file_check.h"

namespace runner {

struct App {
  Chosen chosen;
  std::vector<CheckedFiles> files;  // One per chosen program.
  bool weight_cache = false;  // Whether XNNPACK packs equal weights of all programs once.
};

// An error, if a program does not exist, if a file is missing or damaged, or if --weight_cache is unsafe.
Result<App> open_app(const Arguments& arguments);

}  // namespace runner

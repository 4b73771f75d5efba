// The programs that a command line selects, and their files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/runner/app/app_manifest.h"
#include "tools/runner/arguments.h"
#include "tools/runner/files/file_check.h"

namespace runner {

struct ChosenProgram {
  std::string name;  // In the app; "": not part of an app.
  Arguments::Program options;
  ProgramFiles files;
};

struct Chosen {
  std::optional<AppManifest> app;
  std::vector<ChosenProgram> programs;
};

// Programs by path, and programs of the app that --app names or that contains the runner. Checks the app's
// files if one of its programs is selected. An error, if there are none.
Result<Chosen> choose_programs(const Arguments& arguments);

}  // namespace runner

// Which programs a command line means, and where their files are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/runner/app/app_manifest.h"
#include "tools/runner/arguments.h"
#include "tools/runner/files/file_check.h"

namespace runner {

struct ChosenProgram {
  std::string name;  // In the app; "": it is of none.
  Arguments::Program options;
  ProgramFiles files;
};

struct Chosen {
  std::optional<AppManifest> app;
  std::vector<ChosenProgram> programs;
};

// Programs by path, and programs of the app that --app names or that the runner is part of, whose
// files are checked if one of them is meant. An error, if there are none.
Result<Chosen> choose_programs(const Arguments& arguments);

}  // namespace runner

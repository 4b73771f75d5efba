// The programs that an app opens, and their files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/runner/files/executorch_files.h"
#include "tools/runner/files/file_check.h"
#include "tools/runner/files/manifest.h"

namespace runner {

struct OpenOptions {
  struct Program {
    std::string given;  // A path, or the name of an app's program.
    bool is_bundled = false;
    std::string manifest;
    std::vector<std::string> data;
  };

  std::string app;  // Folder of an app, or its manifest; "": the app that contains this process's program.
  std::vector<std::string> data;  // Of the app's only program.
  std::vector<Program> programs;  // None: all of the app.
  bool weight_cache = false;  // Neither: where the manifests prove that it is safe.
  bool no_weight_cache = false;
  bool verify = false;
};

struct ChosenProgram {
  std::string name;  // In the app; "": not part of an app.
  ProgramFiles files;
};

struct Chosen {
  std::shared_ptr<const Manifest> app;  // nullptr: all programs were chosen by path.
  std::vector<ChosenProgram> programs;
};

// Programs by path, and programs of the app. Checks the app's files if one of its programs is selected. An error, if
// there are none.
Result<Chosen> choose_programs(const OpenOptions& options, OpenDataFiles& open);

}  // namespace runner

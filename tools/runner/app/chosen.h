// The programs that an app opens, and their files.
#pragma once

#include <map>
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
  std::vector<std::string> variants;  // Programs to take where they are among variants, whatever the device is.
  std::vector<std::string> device;    // Facts in place of the device's own: "soc=SM8650".
  std::string state;  // Folder that remembers which variants ended the process while they were loaded; "": none does.
};

struct ChosenProgram {
  std::string name;  // In the app, that of its variants if it is one of them; "": not part of an app.
  ProgramFiles files;
};

struct SkippedVariant {
  std::string program;
  std::string reason;
};

// The program that variants of an app came to.
struct ChosenVariant {
  std::string name;
  std::string program;
  std::vector<SkippedVariant> skipped;  // Better ones that the device cannot have.
};

struct Chosen {
  std::shared_ptr<const Manifest> app;  // nullptr: all programs were chosen by path.
  std::vector<ChosenProgram> programs;
  std::vector<ChosenVariant> variants;
  std::map<std::string, std::vector<std::string>> device;  // What was looked at of it.
};

// The files of an app's program.
ProgramFiles files_in_app(const Manifest& app, const Manifest::Program& program);

// Programs by path, and programs of the app. Checks the app's files if one of its programs is selected. An error, if
// there are none.
Result<Chosen> choose_programs(const OpenOptions& options, OpenDataFiles& open);

}  // namespace runner

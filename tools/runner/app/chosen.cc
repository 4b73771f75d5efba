#include "tools/runner/app/chosen.h"

#include "tools/runner/base/files.h"
#include "tools/runner/base/os.h"
#include "tools/runner/base/process.h"
#include "tools/runner/base/result.h"

namespace runner {
namespace {

constexpr char kManifest[] = "manifest.json";

// More than any app has. Each program is opened and checked, even if all are the same file.
constexpr size_t kMaxPrograms = 1000;

bool is_standalone_file(const OpenOptions::Program& program) {
  const std::string& given = program.given;
  return program.is_bundled || ends_with(given, ".pte") || given.find('/') != std::string::npos || is_file(given);
}

// The app's manifest; "": no app.
std::string app_path(const OpenOptions& options) {
  if (!options.app.empty()) {
    return is_folder(options.app) ? options.app + "/" + kManifest : options.app;
  }
  // Files by path need no app.
  bool needs_app = options.programs.empty();
  for (const OpenOptions::Program& program : options.programs) {
    needs_app = needs_app || !is_standalone_file(program);
  }
  const std::string own = beside(own_path(), kManifest);
  return needs_app && is_file(own) ? own : std::string();
}

ProgramFiles files_of(const OpenOptions::Program& program) {
  ProgramFiles files;
  files.program = program.given;
  files.manifest = program.manifest;
  files.data = program.data;
  files.is_bundled = program.is_bundled;
  const std::string beside_it = without_extension(program.given) + ".manifest.json";
  // A bundle's program contains its weights, even if the program of the same name does not.
  if (!files.is_bundled && files.manifest.empty() && is_file(beside_it)) {
    files.manifest = beside_it;
  }
  return files;
}

ChosenProgram of_app(const Manifest& app, const Manifest::Program& program, const std::vector<std::string>& data) {
  ChosenProgram chosen;
  chosen.name = program.name;
  chosen.files.program = app.folder + program.file;
  chosen.files.manifest = app.path;
  chosen.files.name = program.name;
  chosen.files.data = data;
  return chosen;
}

Result<ChosenProgram> named(const std::shared_ptr<const Manifest>& app, const OpenOptions::Program& options) {
  if (app == nullptr) {
    return error("\"" + options.given +
         "\" is neither a file nor a program of an app; name a .pte file, or the app with --app.");
  }
  if (!options.manifest.empty()) {
    return error("--manifest is for a .pte file, and \"" + options.given + "\" is a program of " + app->label +
         "; remove one of them.");
  }
  std::string names;
  for (const Manifest::Program& program : app->programs) {
    if (program.name == options.given) {
      return of_app(*app, program, options.data);
    }
    names += (names.empty() ? "" : ", ") + program.name;
  }
  return error(app->label + " has no program \"" + options.given + "\"; its programs are: " +
       (names.empty() ? "none" : names) + ".");
}

Result<std::vector<ChosenProgram>> all_of(const Manifest& app, const std::vector<std::string>& data) {
  if (app.programs.empty()) {
    return error(app.label + " has no programs; name a .pte file with --program.");
  }
  if (app.programs.size() > kMaxPrograms) {
    return error(app.path + " has " + std::to_string(app.programs.size()) + " programs, expected at most " +
         std::to_string(kMaxPrograms) + "; name one of them with --program.");
  }
  if (app.programs.size() > 1 && !data.empty()) {
    return error("--data is for one program, and " + app.label + " has several; put it after a --program NAME.");
  }
  std::vector<ChosenProgram> chosen;
  for (const Manifest::Program& program : app.programs) {
    chosen.push_back(of_app(app, program, data));
  }
  return chosen;
}

}  // namespace

Result<Chosen> choose_programs(const OpenOptions& options, OpenDataFiles& open) {
  Chosen chosen;
  const std::string path = app_path(options);
  if (!path.empty()) {
    chosen.app = TRY(open.manifest(path));
  }
  if (options.programs.empty() && chosen.app != nullptr) {
    chosen.programs = TRY(all_of(*chosen.app, options.data));
  } else if (!options.data.empty()) {
    return error("--data stands before the first --program, which it must follow.");
  }
  for (const OpenOptions::Program& program : options.programs) {
    if (is_standalone_file(program)) {
      chosen.programs.push_back({"", files_of(program)});
    } else {
      chosen.programs.push_back(TRY(named(chosen.app, program)));
    }
  }
  if (chosen.programs.empty()) {
    return error("there is no --program, and the runner is not part of an app; --help lists the options.");
  }
  for (const ChosenProgram& program : chosen.programs) {
    if (!program.name.empty()) {
      set_stage("checking the files of the app " + chosen.app->label);
      TRY(check_listed_files(*chosen.app, options.verify));
      break;
    }
  }
  return chosen;
}

}  // namespace runner

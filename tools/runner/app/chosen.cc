#include "tools/runner/app/chosen.h"

#include "tools/runner/base/files.h"
#include "tools/runner/base/os.h"
#include "tools/runner/base/process.h"
#include "tools/runner/base/result.h"

namespace runner {
namespace {

constexpr char kManifest[] = "manifest.json";

bool is_standalone_file(const Arguments::Program& program) {
  const std::string& given = program.given;
  return program.is_bundled || ends_with(given, ".pte") || given.find('/') != std::string::npos || is_file(given);
}

// The app's manifest; "": no app.
Result<std::string> app_path(const Arguments& arguments) {
  if (!arguments.app.empty() && !arguments.leading.manifest.empty()) {
    return error("--app and a --manifest before the first --program both name an app; use one of them.");
  }
  if (!arguments.app.empty()) {
    return is_folder(arguments.app) ? arguments.app + "/" + kManifest : arguments.app;
  }
  if (!arguments.leading.manifest.empty()) {
    const std::string& path = arguments.leading.manifest;
    // Reading the manifest reports a missing or malformed one.
    if (arguments.programs.empty() || TRY(is_app_manifest(path))) {
      return path;
    }
    return error("--manifest stands before the first --program, which it must follow, and " + path +
         " is not an app's.");
  }
  // Files by path need no app.
  bool needs_app = arguments.programs.empty();
  for (const Arguments::Program& program : arguments.programs) {
    needs_app = needs_app || !is_standalone_file(program);
  }
  const std::string own = beside(own_path(), kManifest);
  if (!needs_app) {
    return std::string();
  }
  return TRY(is_app_manifest(own)) ? own : std::string();
}

ProgramFiles files_of(const Arguments::Program& program) {
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

ChosenProgram of_app(
    const AppManifest& app,
    const AppManifest::Program& program,
    const Arguments::Program& options) {
  ChosenProgram chosen;
  chosen.name = program.name;
  chosen.options = options;
  chosen.files.program = app.folder + program.file;
  chosen.files.manifest = !options.manifest.empty() ? options.manifest
      : program.manifest.empty()                    ? ""
                                                    : app.folder + program.manifest;
  chosen.files.data = options.data;
  chosen.files.is_of_app = true;
  for (const auto& [name, file] : program.data) {
    chosen.files.known_data[name] = app.folder + file;
  }
  return chosen;
}

Result<ChosenProgram> named(const std::optional<AppManifest>& app, const Arguments::Program& options) {
  if (!app) {
    return error("\"" + options.given +
         "\" is neither a file nor a program of an app; name a .pte file, or the app with --app.");
  }
  std::string names;
  for (const AppManifest::Program& program : app->programs) {
    if (program.name == options.given) {
      return of_app(*app, program, options);
    }
    names += (names.empty() ? "" : ", ") + program.name;
  }
  return error(app->label + " has no program \"" + options.given + "\"; its programs are: " +
       (names.empty() ? "none" : names) + ".");
}

// Without a --program.
Result<std::vector<ChosenProgram>> all_of(const AppManifest& app, const Arguments::Program& leading) {
  if (app.programs.empty()) {
    return error(app.label + " has no programs; name a .pte file with --program.");
  }
  Arguments::Program options = leading;
  options.manifest = "";
  const bool is_only = app.programs.size() == 1;
  std::vector<ChosenProgram> chosen;
  for (const AppManifest::Program& program : app.programs) {
    if (!is_only && !leading.output.empty()) {
      options.output = leading.output + "/" + program.name;
    }
    chosen.push_back(of_app(app, program, options));
  }
  options.output = "";
  options.output_format = "";
  if (!is_only && !option_of(options).empty()) {
    return error(option_of(options) + " is for one program, and " + app.label +
         " has several; put it after a --program NAME.");
  }
  return chosen;
}

}  // namespace

Result<Chosen> choose_programs(const Arguments& arguments) {
  Chosen chosen;
  const std::string path = TRY(app_path(arguments));
  if (!path.empty()) {
    chosen.app = TRY(read_app_manifest(path));
  }
  Arguments::Program leading = arguments.leading;
  leading.manifest = "";
  if (arguments.programs.empty() && chosen.app) {
    chosen.programs = TRY(all_of(*chosen.app, leading));
  } else if (!option_of(leading).empty()) {
    return error(option_of(leading) + " stands before the first --program, which it must follow.");
  }
  for (const Arguments::Program& program : arguments.programs) {
    if (is_standalone_file(program)) {
      chosen.programs.push_back({"", program, files_of(program)});
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
      TRY(check_app_files(*chosen.app, arguments.verify));
      break;
    }
  }
  return chosen;
}

}  // namespace runner

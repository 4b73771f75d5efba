#include "tools/runner/app/chosen.h"

#include <set>

#include "tools/runner/app/device.h"
#include "tools/runner/app/variants.h"
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
  ChosenProgram chosen = {program.name, files_in_app(app, program)};
  chosen.files.data = data;
  return chosen;
}

// Chooses among variants, and remembers what came of it.
class Chooser {
 public:
  Chooser(const std::shared_ptr<const Manifest>& app, const OpenOptions& options, OpenDataFiles& open, Device device)
      : app_(app), options_(options), open_(open), device_(std::move(device)) {}

  // The program of the variants `name`, which is called like them.
  Result<ChosenProgram> choose(const std::string& name, const std::vector<std::string>& data) {
    const ChosenVariant variant = TRY(choose_variant(app_, name, options_, device_, open_));
    chosen_.push_back(variant);
    ChosenProgram chosen = of_app(*app_, *app_->find(variant.program), data);
    chosen.name = name;
    return chosen;
  }

  void report(Chosen& chosen) {
    chosen.variants = std::move(chosen_);
    chosen.device = device_.facts();
  }

 private:
  const std::shared_ptr<const Manifest>& app_;
  const OpenOptions& options_;
  OpenDataFiles& open_;
  Device device_;
  std::vector<ChosenVariant> chosen_;
};

Status check_forced(const Manifest* app, const OpenOptions& options) {
  std::string names;
  std::set<std::string> known;
  for (const auto& [name, variants] : app == nullptr ? decltype(app->variants)() : app->variants) {
    for (const Manifest::Variant& variant : variants) {
      known.insert(variant.program);
      names += (names.empty() ? "" : ", ") + variant.program;
    }
  }
  for (const std::string& variant : options.variants) {
    if (known.count(variant) == 0) {
      return error("variant: got \"" + variant + "\", expected one of: " + (names.empty() ? "none" : names) + ".");
    }
  }
  return {};
}

Result<ChosenProgram> named(
    const std::shared_ptr<const Manifest>& app,
    const OpenOptions::Program& options,
    Chooser& chooser) {
  if (app == nullptr) {
    return error("\"" + options.given +
         "\" is neither a file nor a program of an app; name a .pte file, or the app with --app.");
  }
  if (!options.manifest.empty()) {
    return error("--manifest is for a .pte file, and \"" + options.given + "\" is a program of " + app->label +
         "; remove one of them.");
  }
  if (app->variants.count(options.given) != 0) {
    return chooser.choose(options.given, options.data);
  }
  if (const Manifest::Program* const program = app->find(options.given)) {
    return of_app(*app, *program, options.data);
  }
  std::string names;
  for (const Manifest::Program& program : app->programs) {
    names += (names.empty() ? "" : ", ") + program.name;
  }
  return error(app->label + " has no program \"" + options.given + "\"; its programs are: " +
       (names.empty() ? "none" : names) + ".");
}

// Programs that are no variants, and the name of each of the app's variants, in the order of names.
std::vector<std::string> names_of(const Manifest& app) {
  std::set<std::string> names;
  for (const Manifest::Program& program : app.programs) {
    names.insert(program.name);
  }
  for (const auto& [name, variants] : app.variants) {
    names.insert(name);
    for (const Manifest::Variant& variant : variants) {
      names.erase(variant.program);
    }
  }
  return {names.begin(), names.end()};
}

Result<std::vector<ChosenProgram>> all_of(
    const std::shared_ptr<const Manifest>& app,
    const std::vector<std::string>& data,
    Chooser& chooser) {
  const std::vector<std::string> names = names_of(*app);
  if (names.empty()) {
    return error(app->label + " has no programs; name a .pte file with --program.");
  }
  if (names.size() > kMaxPrograms) {
    return error(app->path + " has " + std::to_string(names.size()) + " programs, expected at most " +
         std::to_string(kMaxPrograms) + "; name one of them with --program.");
  }
  if (names.size() > 1 && !data.empty()) {
    return error("--data is for one program, and " + app->label + " has several; put it after a --program NAME.");
  }
  std::vector<ChosenProgram> chosen;
  for (const std::string& name : names) {
    chosen.push_back(TRY(named(app, {name, false, "", data}, chooser)));
  }
  return chosen;
}

}  // namespace

ProgramFiles files_in_app(const Manifest& app, const Manifest::Program& program) {
  ProgramFiles files;
  files.program = app.folder + program.file;
  files.manifest = app.path;
  files.name = program.name;
  return files;
}

Result<Chosen> choose_programs(const OpenOptions& options, OpenDataFiles& open) {
  Chosen chosen;
  const std::string path = app_path(options);
  if (!path.empty()) {
    chosen.app = TRY(open.manifest(path));
  }
  TRY(check_forced(chosen.app.get(), options));
  Chooser chooser(chosen.app, options, open, TRY(Device::of(options.device)));
  if (options.programs.empty() && chosen.app != nullptr) {
    chosen.programs = TRY(all_of(chosen.app, options.data, chooser));
  } else if (!options.data.empty()) {
    return error("--data stands before the first --program, which it must follow.");
  }
  for (const OpenOptions::Program& program : options.programs) {
    if (is_standalone_file(program)) {
      chosen.programs.push_back({"", files_of(program)});
    } else {
      chosen.programs.push_back(TRY(named(chosen.app, program, chooser)));
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
  chooser.report(chosen);
  return chosen;
}

}  // namespace runner

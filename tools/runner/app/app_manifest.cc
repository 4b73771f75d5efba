#include "tools/runner/app/app_manifest.h"

#include "tools/runner/base/checksum.h"
#include "tools/runner/base/files.h"
#include "tools/runner/base/json.h"
#include "tools/runner/base/result.h"

namespace runner {
namespace {

constexpr uint64_t kAppFormat = 1;
constexpr char kWhat[] = "an app's manifest";

// More than any app has. Each program is opened and checked, even if all are the same file.
constexpr size_t kMaxPrograms = 1000;

// A damaged manifest may contain any path.
Result<std::string> below(const std::string& path, const std::string& manifest) {
  if (!is_plain_path(path)) {
    return error(manifest + " names the file \"" + path + "\", expected a path below its own folder.");
  }
  return path;
}

Result<AppManifest::Program> read_program(const JsonValue& json, const std::string& path) {
  AppManifest::Program program;
  program.name = TRY(json.text("name"));
  // The program's outputs go to a folder of that name.
  if (!is_plain_path(program.name)) {
    return error(path + " has a program called \"" + program.name +
                 "\", expected a name without \"..\".");
  }
  const std::string file = TRY(json.text("file"));
  program.file = TRY(below(file, path));
  if (json.has("manifest")) {
    const std::string manifest = TRY(json.text("manifest"));
    program.manifest = TRY(below(manifest, path));
  }
  for (const auto& [name, data] : TRY(json.members("data"))) {
    const std::string data_path = TRY(data.as_text());
    program.data[name] = TRY(below(data_path, path));
  }
  return program;
}

Status read_programs(const JsonValue& json, AppManifest& app) {
  std::set<std::string> names;
  for (const JsonValue& item : TRY(json.items("programs"))) {
    app.programs.push_back(TRY(read_program(item, app.path)));
    const std::string& name = app.programs.back().name;
    if (!names.insert(name).second) {
      return error(app.path + " has the program \"" + name + "\" twice; build the app again.");
    }
  }
  if (app.programs.size() > kMaxPrograms) {
    return error(app.path + " has " + std::to_string(app.programs.size()) +
                 " programs, expected at most " + std::to_string(kMaxPrograms) + ".");
  }
  return {};
}

// Paths in a list, if there is one.
Result<std::vector<std::string>> read_paths(const JsonValue& json, const char* key, const std::string& path) {
  std::vector<std::string> paths;
  if (json.has(key)) {
    for (const JsonValue& item : TRY(json.items(key))) {
      const std::string name = TRY(item.as_text());
      paths.push_back(TRY(below(name, path)));
    }
  }
  return paths;
}

}  // namespace

Result<ListedFiles> read_listed_files(const JsonValue& json, const std::string& path) {
  const uint64_t format = TRY(json.number("format"));
  if (format != kAppFormat) {
    return error(path + " has format " + std::to_string(format) +
                 ", expected 1; use the runner that belongs to it.");
  }
  ListedFiles listed;
  listed.path = path;
  listed.folder = beside(path, "");
  // An APK's manifest names the app that it contains.
  listed.label = TRY(json.text(json.has("label") ? "label" : "app"));
  for (const auto& [name, about] : TRY(json.members("files"))) {
    const std::string file = TRY(below(name, path));
    const uint64_t size = TRY(about.number("size"));
    listed.files[file] = {size, TRY(about.text("sha256"))};
  }
  const std::vector<std::string> libraries = TRY(read_paths(json, "libraries", path));
  listed.code.insert(libraries.begin(), libraries.end());
  if (json.has("binary")) {
    const std::string binary = TRY(json.text("binary"));
    listed.code.insert(TRY(below(binary, path)));
  }
  return listed;
}

Result<AppManifest> read_app_manifest(const std::string& path) {
  const JsonValue json = TRY(JsonValue::read(path, kWhat));
  AppManifest app;
  static_cast<ListedFiles&>(app) = TRY(read_listed_files(json, path));
  TRY(read_programs(json, app));
  app.assets = TRY(read_paths(json, "assets", path));
  return app;
}

Result<bool> is_app_manifest(const std::string& path) {
  if (!is_file(path)) {
    return false;
  }
  return TRY(JsonValue::read(path, "a manifest")).has("programs");
}

Status check_app_files(const ListedFiles& app, bool verify) {
  for (const auto& [name, expected] : app.files) {
    const std::string path = app.folder + name;
    if (!is_file(path)) {
      if (app.code.count(name) != 0) {
        continue;
      }
      return error(path + " is missing: it is part of the app " + app.label + "; copy the app again.");
    }
    const MappedFile file = TRY(MappedFile::open(path, "a file of the app"));
    if (file.size() != expected.size) {
      return error(path + " has " + std::to_string(file.size()) + " bytes, expected " +
           std::to_string(expected.size) + " (" + app.path +
           "); it is truncated, or of another build: copy the app again.");
    }
    if (!verify) {
      continue;
    }
    const std::string digest = sha256(file.data(), file.size());
    if (digest != expected.sha256) {
      return error(path + " has sha256 " + digest + ", expected " + expected.sha256 + " (" + app.path +
           "); it is damaged, or of another build: copy the app again.");
    }
  }
  return {};
}

}  // namespace runner

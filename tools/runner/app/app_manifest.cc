#include "tools/runner/app/app_manifest.h"

#include "tools/runner/base/fail.h"
#include "tools/runner/base/json_reader.h"
#include "tools/runner/base/mapped_file.h"
#include "tools/runner/base/paths.h"
#include "tools/runner/base/sha256.h"

namespace runner {
namespace {

constexpr uint64_t kFormat = 1;
constexpr char kWhat[] = "an app's manifest";

// A damaged manifest may name anything.
std::string below(const std::string& path, const std::string& manifest) {
  const bool is_below = !path.empty() && path[0] != '/' && ("/" + path + "/").find("/../") == std::string::npos;
  if (!is_below) {
    fail(manifest + " names the file \"" + path + "\", wanted a path below its own folder.");
  }
  return path;
}

AppManifest::Program read_program(const JsonReader& json, const std::string& path) {
  AppManifest::Program program;
  program.name = json.text("name");
  program.file = below(json.text("file"), path);
  if (json.has("manifest")) {
    program.manifest = below(json.text("manifest"), path);
  }
  for (const auto& [name, file] : json.members("data")) {
    program.data[name] = below(file.as_text(), path);
  }
  return program;
}

}  // namespace

AppManifest read_app_manifest(const std::string& path) {
  const JsonReader json = JsonReader::read(path, kWhat);
  if (json.number("format") != kFormat) {
    fail(path + " has format " + std::to_string(json.number("format")) +
         ", wanted 1; use the runner that belongs to it.");
  }
  AppManifest app;
  app.path = path;
  app.folder = beside(path, "");
  app.label = json.text("label");
  for (const JsonReader& program : json.list("programs")) {
    app.programs.push_back(read_program(program, path));
  }
  if (json.has("assets")) {
    for (const JsonReader& asset : json.list("assets")) {
      app.assets.push_back(below(asset.as_text(), path));
    }
  }
  for (const auto& [file, about] : json.members("files")) {
    app.files[below(file, path)] = {about.number("size"), about.text("sha256")};
  }
  if (json.has("binary")) {
    app.code.insert(json.text("binary"));
  }
  if (json.has("libraries")) {
    for (const JsonReader& library : json.list("libraries")) {
      app.code.insert(library.as_text());
    }
  }
  return app;
}

bool is_app_manifest(const std::string& path) {
  return is_file(path) && JsonReader::read(path, "a manifest").has("programs");
}

void check_app_files(const AppManifest& app, bool verify) {
  for (const auto& [name, wanted] : app.files) {
    const std::string path = app.folder + name;
    if (!is_file(path)) {
      if (app.code.count(name) != 0) {
        continue;
      }
      fail(path + " is missing: it is part of the app " + app.label + "; copy the app again.");
    }
    const MappedFile file(path, "a file of the app");
    if (file.size() != wanted.size) {
      fail(path + " has " + std::to_string(file.size()) + " bytes, " + app.path + " wants " +
           std::to_string(wanted.size) +
           "; it is truncated, or of another build: copy the app again.");
    }
    if (!verify) {
      continue;
    }
    const std::string digest = sha256(file.data(), file.size());
    if (digest != wanted.sha256) {
      fail(path + " has sha256 " + digest + ", " + app.path + " wants " + wanted.sha256 +
           "; it is damaged, or of another build: copy the app again.");
    }
  }
}

}  // namespace runner

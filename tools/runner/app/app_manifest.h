// An app's manifest.json: its programs, what they load, and all of its files.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tools/runner/base/result.h"

namespace runner {

class JsonValue;

// The files of an app or a release, as its manifest lists them.
struct ListedFiles {
  struct File {
    uint64_t size = 0;
    std::string sha256;
  };

  std::string path;    // Of the manifest.
  std::string folder;  // Contains all files; ends with a slash.
  std::string label;
  std::map<std::string, File> files;
  // The binary and its libraries; an installed app may have them elsewhere.
  std::set<std::string> code;
};

struct AppManifest : ListedFiles {
  struct Program {
    std::string name;
    std::string file;
    std::string manifest;                     // "": it has none.
    std::map<std::string, std::string> data;  // Label, or name in the program's manifest, to file.
  };

  std::vector<Program> programs;
  std::vector<std::string> assets;
};

// Of a manifest that was read from `path`. An error, if it is not an app's or a release's.
Result<ListedFiles> read_listed_files(const JsonValue& json, const std::string& path);

// An error, if the file is missing or not an app's manifest.
Result<AppManifest> read_app_manifest(const std::string& path);

// Tells whether it is a JSON file with "programs", which only an app's manifest has.
Result<bool> is_app_manifest(const std::string& path);

// An error, if a file of the app is missing or has another size than the built one; with `verify`
// also if it has other bytes.
Status check_app_files(const ListedFiles& app, bool verify);

}  // namespace runner

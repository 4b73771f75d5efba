// An app's manifest.json: its programs, what they load, and all of its files.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tools/runner/base/result.h"

namespace runner {

struct AppManifest {
  struct Program {
    std::string name;
    std::string file;
    std::string manifest;                     // "": it has none.
    std::map<std::string, std::string> data;  // Label, or name in the program's manifest, to file.
  };

  struct File {
    uint64_t size = 0;
    std::string sha256;
  };

  std::string path;
  std::string folder;  // Contains all files; ends with a slash.
  std::string label;
  std::vector<Program> programs;
  std::vector<std::string> assets;
  std::map<std::string, File> files;
  // The binary and its libraries; an installed app may have them elsewhere.
  std::set<std::string> code;
};

// An error, if the file is missing or not an app's manifest.
Result<AppManifest> read_app_manifest(const std::string& path);

// Whether it is a JSON file with "programs", which only an app's manifest has.
Result<bool> is_app_manifest(const std::string& path);

// An error, if a file of the app is missing or has another size than the built one; with `verify`
// also if it has other bytes.
Status check_app_files(const AppManifest& app, bool verify);

}  // namespace runner

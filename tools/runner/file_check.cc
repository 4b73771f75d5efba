#include "tools/runner/file_check.h"

#include <map>
#include <memory>

#include "tools/runner/crc32.h"
#include "tools/runner/data_match.h"
#include "tools/runner/fail.h"
#include "tools/runner/key_check.h"
#include "tools/runner/manifest.h"
#include "tools/runner/mapped_file.h"
#include "tools/runner/program_file.h"
#include "tools/runner/sha256.h"

namespace runner {
namespace {

void check_program(const MappedFile& file, const Manifest& manifest, bool verify) {
  if (file.size() != manifest.program_size) {
    fail(file.path() + " has " + std::to_string(file.size()) + " bytes, " + manifest.path +
         " wants " + std::to_string(manifest.program_size) +
         "; it is truncated, or of another build than its manifest.");
  }
  if (manifest.program_crc32 && crc32(file.data(), file.size()) != *manifest.program_crc32) {
    fail(file.path() + " has other bytes than " + manifest.path +
         " wants; it is damaged, or of another build than its manifest.");
  }
  if (verify && !manifest.program_sha256.empty()) {
    const std::string digest = sha256(file.data(), file.size());
    if (digest != manifest.program_sha256) {
      fail(file.path() + " has sha256 " + digest + ", " + manifest.path + " wants " +
           manifest.program_sha256 + "; it is damaged, or of another build than its manifest.");
    }
  }
}

// The runtime refuses such files with less of a reason.
void check_no_key_twice(const std::vector<std::unique_ptr<DataFile>>& files) {
  std::map<std::string, const DataFile*> owners;
  for (const auto& file : files) {
    for (const auto& [key, blob] : file->blobs()) {
      const auto [owner, is_new] = owners.emplace(key, file.get());
      if (!is_new) {
        fail("key \"" + key + "\" is in both " + owner->second->path() + " and " + file->path() +
             "; a program's data files may not overlap.");
      }
    }
  }
}

}  // namespace

CheckedFiles check_files(const Arguments::Program& program, bool verify) {
  CheckedFiles checked;
  checked.cache_use.program = program.path;
  const MappedFile program_file(program.path, "a program");
  std::vector<std::unique_ptr<DataFile>> files;
  if (program.manifest.empty()) {
    if (verify) {
      fail("--verify needs a --manifest for " + program.path + ": it has the hashes.");
    }
    for (const std::string& path : program.data) {
      files.push_back(std::make_unique<DataFile>(path));
    }
  } else {
    Manifest manifest = read_manifest(program.manifest);
    check_program(program_file, manifest, verify);
    files = match_data(manifest, program.path, program.data);
    for (size_t i = 0; i < files.size(); ++i) {
      const auto adapter = check_keys(*files[i], manifest.data[i], manifest, verify);
      if (adapter) {
        pack_adapter(manifest, *adapter);
      }
    }
    checked.cache_use.manifest = manifest;
  }
  checked.cache_use.keys = check_program_file(program_file);
  check_no_key_twice(files);
  for (const auto& file : files) {
    checked.data.push_back(file->path());
    for (const auto& [key, blob] : file->blobs()) {
      checked.cache_use.keys[key] = blob.size;
    }
  }
  return checked;
}

}  // namespace runner

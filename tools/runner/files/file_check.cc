#include "tools/runner/files/file_check.h"

#include <map>
#include <memory>

#include "tools/runner/base/crc32.h"
#include "tools/runner/files/data_match.h"
#include "tools/runner/base/fail.h"
#include "tools/runner/files/key_check.h"
#include "tools/runner/files/manifest.h"
#include "tools/runner/base/mapped_file.h"
#include "tools/runner/files/program_file.h"
#include "tools/runner/base/sha256.h"

namespace runner {
namespace {

void check_program(
    const std::string& path,
    std::string_view bytes,
    const Manifest& manifest,
    bool verify) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (bytes.size() != manifest.program_size) {
    fail(path + " has " + std::to_string(bytes.size()) + " bytes, " + manifest.path + " wants " +
         std::to_string(manifest.program_size) +
         "; it is truncated, or of another build than its manifest.");
  }
  if (manifest.program_crc32 && crc32_of_mapped(data, bytes.size()) != *manifest.program_crc32) {
    fail(path + " has other bytes than " + manifest.path +
         " wants; it is damaged, or of another build than its manifest.");
  }
  if (verify && !manifest.program_sha256.empty()) {
    const std::string digest = sha256(data, bytes.size());
    if (digest != manifest.program_sha256) {
      fail(path + " has sha256 " + digest + ", " + manifest.path + " wants " +
           manifest.program_sha256 + "; it is damaged, or of another build than its manifest.");
    }
  }
}

// The runtime refuses such files with less of a reason.
void check_no_key_twice(const DataFiles& files) {
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

CheckedFiles check_files(const ProgramFiles& files, bool verify, OpenDataFiles& open) {
  CheckedFiles checked;
  checked.cache_use.program = files.program;
  checked.program = std::make_shared<MappedFile>(files.program, "a program");
  const MappedFile& program_file = *checked.program;
  checked.program_bytes = program_file.text();
  if (files.is_bundled) {
    BundledFile bundled = read_bundled(program_file);
    checked.program_bytes = {reinterpret_cast<const char*>(bundled.program), bundled.program_size};
    checked.cases = std::move(bundled.cases);
  }
  if (files.manifest.empty()) {
    if (verify && !files.is_of_app) {
      fail("--verify needs a --manifest for " + files.program + ": it has the hashes.");
    }
    for (const std::string& path : files.data) {
      checked.data.push_back(open.open(path));
    }
    for (const auto& [name, path] : files.known_data) {
      if (files.data.empty()) {
        checked.data.push_back(open.open(path));
      }
    }
  } else {
    Manifest manifest = read_manifest(files.manifest);
    check_program(program_file.path(), checked.program_bytes, manifest, verify);
    checked.data = match_data(manifest, files.program, files.data, files.known_data, open);
    for (size_t i = 0; i < checked.data.size(); ++i) {
      const auto adapter = check_keys(*checked.data[i], manifest.data[i], manifest, verify);
      if (adapter) {
        pack_adapter(manifest, *adapter);
      }
    }
    checked.cache_use.manifest = manifest;
  }
  checked.named_data = check_program_file(program_file.path(), checked.program_bytes);
  drop_pages(program_file.data(), program_file.size());
  check_no_key_twice(checked.data);
  checked.cache_use.keys = checked.named_data;
  for (const auto& file : checked.data) {
    for (const auto& [key, blob] : file->blobs()) {
      checked.cache_use.keys[key] = blob.size;
    }
  }
  return checked;
}

}  // namespace runner

#include "tools/runner/files/key_check.h"

#include "tools/runner/files/data_match.h"
#include "tools/runner/base/fail.h"
#include "tools/runner/base/mapped_file.h"

namespace runner {
namespace {

// What is wrong with a key; empty: nothing.
std::string difference(
    const DataFile& file,
    const std::string& key,
    const Manifest::Key& wanted,
    bool hashed) {
  if (!file.has(key)) {
    return "it has no key \"" + key + "\"";
  }
  const uint64_t size = file.blobs().find(key)->second.size;
  if (size != wanted.size) {
    return "its key \"" + key + "\" has " + std::to_string(size) + " bytes, wanted " +
        std::to_string(wanted.size);
  }
  // A bit that has changed on disk or on the way must not become a wrong number.
  if (wanted.crc32 && file.crc32_of(key) != *wanted.crc32) {
    return "its key \"" + key + "\" has other bytes than when it was built";
  }
  if (hashed) {
    const std::string digest = file.sha256_of(key);
    if (digest != wanted.sha256) {
      return "its key \"" + key + "\" has sha256 " + digest + ", wanted " + wanted.sha256;
    }
  }
  return "";
}

// Why an adapter of another program can't be for this one.
std::string misfit(const AdapterIndex& index, const Manifest::Data& entry) {
  for (const auto& [key, wanted] : entry.keys) {
    const auto found = index.entries.find(key);
    if (found == index.entries.end()) {
      return "it has no key \"" + key + "\"";
    }
    if (found->second.size != wanted.size) {
      return "its key \"" + key + "\" has " + std::to_string(found->second.size) +
          " bytes, wanted " + std::to_string(wanted.size) + " (another rank or base)";
    }
  }
  return "its program has other base weights, layers or activation scales";
}

AdapterIndex check_other_adapter(
    const DataFile& file,
    const Manifest::Data& entry,
    const Manifest& manifest,
    bool verify,
    const std::string& why) {
  const std::string index_path = adapter_index_path(file.path());
  if (!is_file(index_path)) {
    fail(file.path() + " is not the adapter that " + manifest.label + " was built with: " + why +
         "; another adapter needs its index, " + index_path + ", which is missing.");
  }
  const AdapterIndex index = read_adapter_index(index_path);
  if (index.interface != manifest.interface) {
    fail(file.path() + " doesn't fit " + manifest.label + ": " + misfit(index, entry) + ", and " +
         index.path + " has not the interface of that program; build it for the model, recipe " +
         "and shared data of that program.");
  }
  for (const auto& [key, wanted] : entry.keys) {
    const auto found = index.entries.find(key);
    if (found == index.entries.end() || found->second.size != wanted.size) {
      fail(file.path() + " doesn't fit " + manifest.label + ": its index has " +
           (found == index.entries.end() ? "no key \"" : "another size for key \"") + key + "\"; " +
           "build it for the model and recipe of that program.");
    }
    const std::string wrong = difference(
        file, key, found->second, verify || (wanted.by_name && !found->second.crc32));
    if (!wrong.empty()) {
      fail(file.path() + " is damaged, or not the adapter of " + index.path + ": " + wrong + ".");
    }
  }
  return index;
}

}  // namespace

std::optional<AdapterIndex> check_keys(
    const DataFile& file,
    const Manifest::Data& entry,
    const Manifest& manifest,
    bool verify) {
  for (const auto& [key, wanted] : entry.keys) {
    const std::string wrong = difference(file, key, wanted, verify || (wanted.by_name && !wanted.crc32));
    if (wrong.empty()) {
      continue;
    }
    if (entry.kind == "adapter") {
      return check_other_adapter(file, entry, manifest, verify, wrong);
    }
    fail(file.path() + " is damaged, or not the data that " + manifest.label + " was built with: " +
         wrong + "; build " + entry.label + " and the program together.");
  }
  return std::nullopt;
}

}  // namespace runner

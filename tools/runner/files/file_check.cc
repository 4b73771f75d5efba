#include "tools/runner/files/file_check.h"

#include <functional>
#include <optional>
#include <utility>

#include "tools/runner/base/checksum.h"
#include "tools/runner/files/manifest.h"

namespace runner {
namespace {

// Where an adapter's index is.
std::string adapter_index_path(const std::string& data_path) {
  return without_extension(data_path) + ".index.json";
}

bool has_name(const DataFile& file, const Manifest::Data& entry) {
  return base_name(file.path()) == entry.file;
}

bool has_all_keys(const DataFile& file, const Manifest::Data& entry) {
  for (const auto& [key, wanted] : entry.keys) {
    if (!file.has(key)) {
      return false;
    }
  }
  return true;
}

// Whether a file holds the bytes that a program was built with, as far as sums tell.
bool has_content(const DataFile& file, const Manifest::Data& entry) {
  for (const auto& [key, wanted] : entry.keys) {
    if (!file.has(key) || file.blobs().find(key)->second.size != wanted.size ||
        (wanted.crc32 && file.crc32_of(key) != *wanted.crc32)) {
      return false;
    }
  }
  return true;
}

bool may_be_adapter(const DataFile& file, const Manifest::Data& entry) {
  return entry.kind == "adapter" && is_file(adapter_index_path(file.path()));
}

// Whether a file may take the place of an entry's.
using Fits = std::function<Result<bool>(const DataFile& file, const Manifest::Data& entry)>;

// Gives each file that `fits` a free entry to the first such entry.
Status place(DataFiles& left, const Manifest& manifest, DataFiles& placed, const Fits& fits) {
  for (auto& file : left) {
    for (size_t i = 0; i < placed.size() && file != nullptr; ++i) {
      if (placed[i] == nullptr && TRY(fits(*file, manifest.data[i]))) {
        placed[i] = std::move(file);
      }
    }
  }
  return {};
}

// Gives each file that a user named to an entry; what is left over is no file of the program's.
Status place_all(DataFiles& left, const Manifest& manifest, DataFiles& placed) {
  using Entry = Manifest::Data;
  const auto has_name_and_content = [](const DataFile& file, const Entry& entry) {
    return has_name(file, entry) && has_content(file, entry);
  };
  const auto is_adapter = [&manifest](const DataFile& file, const Entry& entry) -> Result<bool> {
    if (!may_be_adapter(file, entry)) {
      return false;
    }
    const AdapterIndex index = TRY(read_adapter_index(adapter_index_path(file.path())));
    return index.interface == manifest.interface;
  };
  const auto has_name_and_keys = [](const DataFile& file, const Entry& entry) {
    return has_name(file, entry) && has_all_keys(file, entry);
  };
  // Names say least: two targets' files may have the same one.
  const Fits by_certainty[] = {
      has_name_and_content, has_content, is_adapter, has_name_and_keys, has_all_keys, has_name, may_be_adapter};
  for (const Fits& fits : by_certainty) {
    TRY(place(left, manifest, placed, fits));
  }
  return {};
}

std::string names(const Manifest& manifest) {
  std::string text;
  for (const Manifest::Data& entry : manifest.data) {
    text += (text.empty() ? "" : ", ") + entry.file;
  }
  return text.empty() ? "no data files" : text;
}

std::string place_of(
    const Manifest::Data& entry,
    const std::string& program,
    const std::map<std::string, std::string>& known) {
  const auto by_label = known.find(entry.label);
  const auto found = by_label != known.end() ? by_label : known.find(entry.file);
  return found != known.end() ? found->second : beside(program, entry.file);
}

// One file per entry of the manifest's `data`, in its order.
//
// Each of `paths` (--data) is matched by its bytes, else as another adapter that fits, else by its
// keys, and last by its base name, which files of two targets may share. What no path matches is where
// `known` says, by label or name, or beside the program.
Result<DataFiles> match_data(
    const Manifest& manifest,
    const std::string& program,
    const std::vector<std::string>& paths,
    const std::map<std::string, std::string>& known,
    OpenDataFiles& open) {
  DataFiles left;
  for (const std::string& path : paths) {
    left.push_back(TRY(open.open(path)));
  }
  DataFiles placed(manifest.data.size());
  TRY(place_all(left, manifest, placed));
  for (const auto& file : left) {
    if (file != nullptr) {
      return error(file->path() + " is none of the data files of " + manifest.label + " (" +
           names(manifest) + "), nor has it the keys of one of them" +
           " or an index that would let it stand in for an adapter.");
    }
  }
  for (size_t i = 0; i < placed.size(); ++i) {
    if (placed[i] == nullptr) {
      const Manifest::Data& entry = manifest.data[i];
      const std::string path = place_of(entry, program, known);
      if (!is_file(path)) {
        return error(path + " is missing: " + manifest.label + " needs the data of " + entry.label +
             "; put it there or name it with --data.");
      }
      placed[i] = TRY(open.open(path));
    }
  }
  return placed;
}

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

Result<AdapterIndex> check_other_adapter(
    const DataFile& file,
    const Manifest::Data& entry,
    const Manifest& manifest,
    bool verify,
    const std::string& why) {
  const std::string index_path = adapter_index_path(file.path());
  if (!is_file(index_path)) {
    return error(file.path() + " is not the adapter that " + manifest.label + " was built with: " + why +
         "; another adapter needs its index, " + index_path + ", which is missing.");
  }
  AdapterIndex index = TRY(read_adapter_index(index_path));
  if (index.interface != manifest.interface) {
    return error(file.path() + " doesn't fit " + manifest.label + ": " + misfit(index, entry) + ", and " +
         index.path + " has not the interface of that program; build it for the model, recipe " +
         "and shared data of that program.");
  }
  for (const auto& [key, wanted] : entry.keys) {
    const auto found = index.entries.find(key);
    if (found == index.entries.end() || found->second.size != wanted.size) {
      return error(file.path() + " doesn't fit " + manifest.label + ": its index has " +
           (found == index.entries.end() ? "no key \"" : "another size for key \"") + key + "\"; " +
           "build it for the model and recipe of that program.");
    }
    const std::string wrong = difference(
        file, key, found->second, verify || (wanted.by_name && !found->second.crc32));
    if (!wrong.empty()) {
      return error(file.path() + " is damaged, or not the adapter of " + index.path + ": " + wrong + ".");
    }
  }
  return index;
}

// An error, if the file lacks a key of `entry`, or has other bytes for it.
//
// Hashes keys that say nothing of their bytes; with `verify` all keys. Another adapter may stand in
// for the entry's if its index has the program's interface; that index is what is returned.
Result<std::optional<AdapterIndex>> check_keys(
    const DataFile& file,
    const Manifest::Data& entry,
    const Manifest& manifest,
    bool verify) {
  const std::string index_path = adapter_index_path(file.path());
  if (entry.kind == "adapter" && is_file(index_path)) {
    const std::string label = TRY(read_adapter_index(index_path)).label;
    if (!label.empty() && label != entry.label) {
      return std::optional(
          TRY(check_other_adapter(file, entry, manifest, verify, "it is that of " + label)));
    }
  }
  for (const auto& [key, wanted] : entry.keys) {
    const std::string wrong = difference(file, key, wanted, verify || (wanted.by_name && !wanted.crc32));
    if (wrong.empty()) {
      continue;
    }
    if (entry.kind == "adapter") {
      return std::optional(TRY(check_other_adapter(file, entry, manifest, verify, wrong)));
    }
    return error(file.path() + " is damaged, or not the data that " + manifest.label + " was built with: " +
         wrong + "; build " + entry.label + " and the program together.");
  }
  return std::optional<AdapterIndex>();
}

Status check_program(
    const std::string& path,
    std::string_view bytes,
    const Manifest& manifest,
    bool verify) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (bytes.size() != manifest.program.size) {
    return error(path + " has " + std::to_string(bytes.size()) + " bytes, " + manifest.path + " wants " +
         std::to_string(manifest.program.size) +
         "; it is truncated, or of another build than its manifest.");
  }
  if (manifest.program.crc32 && crc32_of_mapped(data, bytes.size()) != *manifest.program.crc32) {
    return error(path + " has other bytes than " + manifest.path +
         " wants; it is damaged, or of another build than its manifest.");
  }
  if (verify && !manifest.program.sha256.empty()) {
    const std::string digest = sha256(data, bytes.size());
    if (digest != manifest.program.sha256) {
      return error(path + " has sha256 " + digest + ", " + manifest.path + " wants " +
           manifest.program.sha256 + "; it is damaged, or of another build than its manifest.");
    }
  }
  return {};
}

// The runtime refuses such files with less of a reason.
Status check_no_key_twice(const DataFiles& files) {
  std::map<std::string, const DataFile*> owners;
  for (const auto& file : files) {
    for (const auto& [key, blob] : file->blobs()) {
      const auto [owner, is_new] = owners.emplace(key, file.get());
      if (!is_new) {
        return error("key \"" + key + "\" is in both " + owner->second->path() + " and " + file->path() +
             "; a program's data files may not overlap.");
      }
    }
  }
  return {};
}

// Of a program without a manifest, nothing says what its data has to be.
Status open_data(const ProgramFiles& files, bool verify, OpenDataFiles& open, CheckedFiles& checked) {
  if (verify && !files.is_of_app) {
    return error("--verify needs a --manifest for " + files.program + ": it has the hashes.");
  }
  for (const std::string& path : files.data) {
    checked.data.push_back(TRY(open.open(path)));
  }
  for (const auto& [name, path] : files.known_data) {
    if (files.data.empty()) {
      checked.data.push_back(TRY(open.open(path)));
    }
  }
  return {};
}

Status check_with_manifest(
    const ProgramFiles& files,
    bool verify,
    OpenDataFiles& open,
    CheckedFiles& checked) {
  Manifest manifest = TRY(read_manifest(files.manifest));
  TRY(check_program(checked.program->path(), checked.program_bytes, manifest, verify));
  checked.data = TRY(match_data(manifest, files.program, files.data, files.known_data, open));
  for (size_t i = 0; i < checked.data.size(); ++i) {
    const auto adapter = TRY(check_keys(*checked.data[i], manifest.data[i], manifest, verify));
    if (adapter) {
      pack_adapter(manifest, *adapter);
    }
  }
  checked.cache_use.manifest = std::move(manifest);
  return {};
}

}  // namespace

Result<CheckedFiles> check_files(const ProgramFiles& files, bool verify, OpenDataFiles& open) {
  CheckedFiles checked;
  checked.cache_use.program = files.program;
  checked.program = std::make_shared<MappedFile>(TRY(MappedFile::open(files.program, "a program")));
  const MappedFile& program_file = *checked.program;
  checked.program_bytes = program_file.text();
  if (files.is_bundled) {
    BundledFile bundled = TRY(read_bundled(program_file));
    checked.program_bytes = {reinterpret_cast<const char*>(bundled.program), bundled.program_size};
    checked.cases = std::move(bundled.cases);
  }
  TRY(files.manifest.empty() ? open_data(files, verify, open, checked)
                             : check_with_manifest(files, verify, open, checked));
  checked.named_data = TRY(check_program_file(program_file.path(), checked.program_bytes));
  drop_pages(program_file.data(), program_file.size());
  TRY(check_no_key_twice(checked.data));
  checked.cache_use.keys = checked.named_data;
  for (const auto& file : checked.data) {
    for (const auto& [key, blob] : file->blobs()) {
      checked.cache_use.keys[key] = blob.size;
    }
  }
  return checked;
}

}  // namespace runner

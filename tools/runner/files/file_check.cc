#include "tools/runner/files/file_check.h"

#include <functional>
#include <optional>
#include <utility>

#include "tools/runner/bundled/bundled_file.h"
#include "tools/runner/files/manifest.h"

namespace runner {
namespace {

// Path of an adapter's index.
std::string adapter_index_path(const std::string& data_path) {
  return without_extension(data_path) + ".index.json";
}

bool has_name(const DataFile& file, const Manifest::Data& entry) {
  return base_name(file.path()) == entry.file;
}

bool has_all_keys(const DataFile& file, const Manifest::Data& entry) {
  for (const auto& [key, expected] : entry.keys) {
    if (!file.has(key)) {
      return false;
    }
  }
  return true;
}

// Tells whether a file contains the bytes that a program was built with, according to checksums.
bool has_content(const DataFile& file, const Manifest::Data& entry) {
  for (const auto& [key, expected] : entry.keys) {
    if (!file.has(key) || file.blobs().find(key)->second.size != expected.size ||
        (expected.crc32 && file.crc32_of(key) != *expected.crc32)) {
      return false;
    }
  }
  return true;
}

bool may_be_adapter(const DataFile& file, const Manifest::Data& entry) {
  return entry.kind == "adapter" && is_file(adapter_index_path(file.path()));
}

// Tells whether a file may be used for an entry.
using Fits = std::function<Result<bool>(const DataFile& file, const Manifest::Data& entry)>;

// Assigns each file to the first free entry that it fits.
Status assign(DataFiles& left, const Manifest& manifest, DataFiles& assigned, const Fits& fits) {
  for (auto& file : left) {
    for (size_t i = 0; i < assigned.size() && file != nullptr; ++i) {
      if (assigned[i] == nullptr && TRY(fits(*file, manifest.data[i]))) {
        assigned[i] = std::move(file);
      }
    }
  }
  return {};
}

// Assigns each file of the command line to an entry; the remaining ones do not belong to the program.
Status assign_all(DataFiles& left, const Manifest& manifest, DataFiles& assigned, OpenDataFiles& open) {
  using Entry = Manifest::Data;
  const auto has_name_and_content = [](const DataFile& file, const Entry& entry) {
    return has_name(file, entry) && has_content(file, entry);
  };
  const auto is_adapter = [&manifest, &open](const DataFile& file, const Entry& entry) -> Result<bool> {
    if (!may_be_adapter(file, entry)) {
      return false;
    }
    return TRY(open.adapter_index(adapter_index_path(file.path())))->interface == manifest.interface;
  };
  const auto has_name_and_keys = [](const DataFile& file, const Entry& entry) {
    return has_name(file, entry) && has_all_keys(file, entry);
  };
  // Names come last: files of two targets may have the same name.
  const Fits by_certainty[] = {
      has_name_and_content, has_content, is_adapter, has_name_and_keys, has_all_keys, has_name, may_be_adapter};
  for (const Fits& fits : by_certainty) {
    TRY(assign(left, manifest, assigned, fits));
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

std::string default_path(
    const Manifest::Data& entry,
    const std::string& program,
    const std::map<std::string, std::string>& known) {
  const auto by_label = known.find(entry.label);
  const auto entry_path = by_label != known.end() ? by_label : known.find(entry.file);
  return entry_path != known.end() ? entry_path->second : beside(program, entry.file);
}

// One file per entry of the manifest's `data`, in the same order.
//
// Each of `paths` (--data) is matched by its bytes, then as another adapter that fits, then by its
// keys, and last by its base name, which files of two targets may share. Entries without a match use the file in
// `known`, by label or name, or the one beside the program.
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
  DataFiles assigned(manifest.data.size());
  TRY(assign_all(left, manifest, assigned, open));
  for (const auto& file : left) {
    if (file != nullptr) {
      return error(file->path() + " is not a data file of " + manifest.label + " (" +
           names(manifest) + "): its name and keys are others, and it has no index of a replacement adapter.");
    }
  }
  for (size_t i = 0; i < assigned.size(); ++i) {
    if (assigned[i] == nullptr) {
      const Manifest::Data& entry = manifest.data[i];
      const std::string path = default_path(entry, program, known);
      if (!is_file(path)) {
        return error(path + " is missing: " + manifest.label + " needs the data of " + entry.label +
             "; put it there or name it with --data.");
      }
      assigned[i] = TRY(open.open(path));
    }
  }
  std::map<const DataFile*, size_t> entries;
  for (size_t i = 0; i < assigned.size(); ++i) {
    const auto [other, is_new] = entries.emplace(assigned[i].get(), i);
    if (!is_new) {
      return error(assigned[i]->path() + " is the data of both " + manifest.data[other->second].label + " and " +
           manifest.data[i].label + ", for which " + manifest.label + " needs two files; name them with --data.");
    }
  }
  return assigned;
}

// Says what is wrong with a key; "": nothing.
std::string difference(
    const DataFile& file,
    const std::string& key,
    const Manifest::Key& expected,
    bool hashed) {
  if (!file.has(key)) {
    return "it has no key \"" + key + "\"";
  }
  const uint64_t size = file.blobs().find(key)->second.size;
  if (size != expected.size) {
    return "its key \"" + key + "\" has " + std::to_string(size) + " bytes, expected " +
        std::to_string(expected.size);
  }
  // A flipped bit must not become a wrong number.
  if (expected.crc32 && file.crc32_of(key) != *expected.crc32) {
    return "its key \"" + key + "\" has other bytes than when it was built";
  }
  if (hashed) {
    const std::string digest = file.sha256_of(key);
    if (digest != expected.sha256) {
      return "its key \"" + key + "\" has sha256 " + digest + ", expected " + expected.sha256;
    }
  }
  return "";
}

// Says why an adapter of another program does not fit this one.
std::string misfit(const AdapterIndex& index, const Manifest::Data& entry) {
  for (const auto& [key, expected] : entry.keys) {
    const auto indexed = index.entries.find(key);
    if (indexed == index.entries.end()) {
      return "it has no key \"" + key + "\"";
    }
    if (indexed->second.size != expected.size) {
      return "its key \"" + key + "\" has " + std::to_string(indexed->second.size) +
          " bytes, expected " + std::to_string(expected.size) + " (another rank or base)";
    }
  }
  return "its program has other base weights, layers or activation scales";
}

Result<std::shared_ptr<const AdapterIndex>> check_other_adapter(
    const DataFile& file,
    const Manifest::Data& entry,
    const Manifest& manifest,
    bool verify,
    OpenDataFiles& open,
    const std::string& why) {
  const std::string index_path = adapter_index_path(file.path());
  if (!is_file(index_path)) {
    return error(file.path() + " is not the adapter that " + manifest.label + " was built with: " + why +
         "; another adapter needs its index, " + index_path + ", which is missing.");
  }
  const std::shared_ptr<const AdapterIndex> shared = TRY(open.adapter_index(index_path));
  const AdapterIndex& index = *shared;
  if (index.interface != manifest.interface) {
    return error(file.path() + " does not fit " + manifest.label + ": " + misfit(index, entry) + ", and " +
         index.path + " has another interface than that program; build it for the model, recipe " +
         "and shared data of that program.");
  }
  for (const auto& [key, expected] : entry.keys) {
    const auto indexed = index.entries.find(key);
    if (indexed == index.entries.end() || indexed->second.size != expected.size) {
      return error(file.path() + " does not fit " + manifest.label + ": its index has " +
           (indexed == index.entries.end() ? "no key \"" : "another size for key \"") + key + "\"; " +
           "build it for the model and recipe of that program.");
    }
    const std::string wrong = difference(
        file, key, indexed->second, verify || (expected.by_name && !indexed->second.crc32));
    if (!wrong.empty()) {
      return error(file.path() + " is damaged, or not the adapter of " + index.path + ": " + wrong + ".");
    }
  }
  return shared;
}

// An error, if the file lacks a key of `entry`, or has other bytes for it.
//
// Hashes keys that do not depend on their bytes; with `verify`, all keys. Another adapter may replace the
// entry's, if its index has the program's interface; the result is that index, else nullptr.
Result<std::shared_ptr<const AdapterIndex>> check_keys(
    const DataFile& file,
    const Manifest::Data& entry,
    const Manifest& manifest,
    bool verify,
    OpenDataFiles& open) {
  const std::string index_path = adapter_index_path(file.path());
  if (entry.kind == "adapter" && is_file(index_path)) {
    const std::string& label = TRY(open.adapter_index(index_path))->label;
    if (!label.empty() && label != entry.label) {
      return check_other_adapter(file, entry, manifest, verify, open, "it is that of " + label);
    }
  }
  for (const auto& [key, expected] : entry.keys) {
    const std::string wrong = difference(file, key, expected, verify || (expected.by_name && !expected.crc32));
    if (wrong.empty()) {
      continue;
    }
    if (entry.kind == "adapter") {
      return check_other_adapter(file, entry, manifest, verify, open, wrong);
    }
    return error(file.path() + " is damaged, or not the data that " + manifest.label + " was built with: " +
         wrong + "; build " + entry.label + " and the program together.");
  }
  return std::shared_ptr<const AdapterIndex>();
}

Status check_program(
    const MappedFile& file,
    std::string_view bytes,
    const Manifest& manifest,
    bool verify) {
  const std::string& path = file.path();
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (bytes.size() != manifest.program.size) {
    return error(path + " has " + std::to_string(bytes.size()) + " bytes, expected " +
         std::to_string(manifest.program.size) + " (" + manifest.path +
         "); it is truncated, or of another build than its manifest.");
  }
  if (manifest.program.crc32 && file.crc32_of(data, bytes.size()) != *manifest.program.crc32) {
    return error(path + " has other bytes than those in " + manifest.path +
         "; it is damaged, or of another build than its manifest.");
  }
  if (verify && !manifest.program.sha256.empty()) {
    const std::string digest = file.sha256_of(data, bytes.size());
    if (digest != manifest.program.sha256) {
      return error(path + " has sha256 " + digest + ", expected " + manifest.program.sha256 + " (" +
           manifest.path + "); it is damaged, or of another build than its manifest.");
    }
  }
  return {};
}

// The runtime refuses such files, too, with a less specific error.
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

// Without a manifest, a program's expected data are unknown.
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
  const std::shared_ptr<const Manifest> own = TRY(open.manifest(files.manifest));
  const Manifest& manifest = *own;
  std::optional<Manifest> adapted;
  TRY(check_program(*checked.program, checked.program_bytes, manifest, verify));
  checked.data = TRY(match_data(manifest, files.program, files.data, files.known_data, open));
  for (size_t i = 0; i < checked.data.size(); ++i) {
    const auto adapter = TRY(check_keys(*checked.data[i], manifest.data[i], manifest, verify, open));
    if (adapter != nullptr) {
      if (!adapted) {
        adapted = manifest;
      }
      pack_adapter(*adapted, *adapter);
    }
  }
  checked.cache_use.manifest = adapted ? std::make_shared<const Manifest>(std::move(*adapted)) : own;
  return {};
}

}  // namespace

Result<CheckedFiles> check_files(const ProgramFiles& files, bool verify, OpenDataFiles& open) {
  CheckedFiles checked;
  checked.cache_use.program = files.program;
  checked.program = TRY(MappedFile::open_shared(files.program, "a program"));
  const MappedFile& program_file = *checked.program;
  checked.program_bytes = program_file.text();
  if (files.is_bundled) {
    const BundledFile bundled = TRY(read_bundled(program_file));
    checked.program_bytes = {reinterpret_cast<const char*>(bundled.program), bundled.program_size};
  }
  TRY(files.manifest.empty() ? open_data(files, verify, open, checked)
                             : check_with_manifest(files, verify, open, checked));
  ProgramContents contents = TRY(check_program_file(program_file.path(), checked.program_bytes));
  checked.named_data = std::move(contents.named_data);
  drop_pages(program_file.data(), program_file.size());
  TRY(check_no_key_twice(checked.data));
  for (const auto& [key, size] : checked.named_data) {
    checked.cache_use.keys.insert(key);
  }
  for (const auto& file : checked.data) {
    for (const auto& [key, blob] : file->blobs()) {
      checked.cache_use.keys.insert(key);
    }
  }
  // The runtime reads payloads in the tables without the loader, which replaces keys.
  if (!contents.has_inline_payloads) {
    checked.content_keys = use_content_keys(checked.cache_use);
  }
  return checked;
}

}  // namespace runner

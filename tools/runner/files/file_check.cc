#include "tools/runner/files/file_check.h"

#include <functional>
#include <optional>
#include <utility>

#include "tools/runner/bundled/bundled_file.h"
#include "tools/runner/files/manifest.h"

namespace runner {
namespace {

// Dimensions of a tensor in a message.
constexpr size_t kMaxShown = 20;

// Path of a data file's manifest, which an adapter needs.
std::string manifest_path(const std::string& data_path) {
  return without_extension(data_path) + ".manifest.json";
}

// What a program needs, and the files for it.
struct Needs {
  const Manifest& manifest;
  const Manifest::Program& program;
  OpenDataFiles& open;

  const Manifest::File& file(const std::string& path) const { return manifest.file(path); }
  bool is_adapter(const std::string& path) const { return path == program.adapter; }
};

bool has_name(const DataFile& file, const std::string& path) {
  return base_name(file.path()) == base_name(path);
}

bool has_all_keys(const DataFile& file, const Manifest::File& expected) {
  for (const auto& [key, about] : expected.keys) {
    if (!file.has(key)) {
      return false;
    }
  }
  return true;
}

// Tells whether a file contains the bytes that a program was built with, according to checksums.
bool has_content(const DataFile& file, const Manifest::File& expected) {
  for (const auto& [key, about] : expected.keys) {
    if (!file.has(key) || file.blobs().find(key)->second.size != about.size || file.crc32_of(key) != about.crc32) {
      return false;
    }
  }
  return true;
}

// The manifest of an adapter's file; nullptr: it has none.
Result<std::shared_ptr<const Manifest>> adapter_manifest(const DataFile& file, OpenDataFiles& open) {
  const std::string path = manifest_path(file.path());
  if (!is_file(path)) {
    return std::shared_ptr<const Manifest>();
  }
  std::shared_ptr<const Manifest> manifest = TRY(open.manifest(path));
  return adapter_of(*manifest).first != nullptr ? manifest : nullptr;
}

// Tells whether a file may be used for one of the program's data files.
using Fits = std::function<Result<bool>(const DataFile& file, const std::string& path)>;

// Assigns each file to the first free one of the program's that it fits.
Status assign(DataFiles& left, const Needs& needs, DataFiles& assigned, const Fits& fits) {
  for (auto& file : left) {
    for (size_t i = 0; i < assigned.size() && file != nullptr; ++i) {
      if (assigned[i] == nullptr && TRY(fits(*file, needs.program.data[i]))) {
        assigned[i] = std::move(file);
      }
    }
  }
  return {};
}

// Assigns each file of the command line; the remaining ones do not belong to the program.
Status assign_all(DataFiles& left, const Needs& needs, DataFiles& assigned) {
  const auto has_name_and_content = [&needs](const DataFile& file, const std::string& path) {
    return has_name(file, path) && has_content(file, needs.file(path));
  };
  const auto has_same_content = [&needs](const DataFile& file, const std::string& path) {
    return has_content(file, needs.file(path));
  };
  const auto may_be_adapter = [&needs](const DataFile& file, const std::string& path) -> Result<bool> {
    return needs.is_adapter(path) && TRY(adapter_manifest(file, needs.open)) != nullptr;
  };
  const auto is_adapter = [&needs](const DataFile& file, const std::string& path) -> Result<bool> {
    if (!needs.is_adapter(path)) {
      return false;
    }
    const auto manifest = TRY(adapter_manifest(file, needs.open));
    return manifest != nullptr && adapter_of(*manifest).first->interface == needs.program.interface;
  };
  const auto has_name_and_keys = [&needs](const DataFile& file, const std::string& path) {
    return has_name(file, path) && has_all_keys(file, needs.file(path));
  };
  const auto has_same_keys = [&needs](const DataFile& file, const std::string& path) {
    return has_all_keys(file, needs.file(path));
  };
  // Names come last: files of two targets may have the same name.
  const Fits by_certainty[] = {
      has_name_and_content, has_same_content, is_adapter, has_name_and_keys, has_same_keys, has_name, may_be_adapter};
  for (const Fits& fits : by_certainty) {
    TRY(assign(left, needs, assigned, fits));
  }
  return {};
}

std::string names(const Manifest::Program& program) {
  std::string text;
  for (const std::string& path : program.data) {
    text += (text.empty() ? "" : ", ") + base_name(path);
  }
  return text.empty() ? "no data files" : text;
}

// One file per data file of the program, in the same order.
//
// Each of `paths` (--data) is matched by its bytes, then as another adapter that fits, then by its
// keys, and last by its base name, which files of two targets may share. Those without a match are the manifest's.
Result<DataFiles> match_data(const Needs& needs, const std::vector<std::string>& paths) {
  const Manifest::Program& program = needs.program;
  DataFiles left;
  for (const std::string& path : paths) {
    left.push_back(TRY(needs.open.open(path)));
  }
  DataFiles assigned(program.data.size());
  TRY(assign_all(left, needs, assigned));
  for (const auto& file : left) {
    if (file != nullptr) {
      return error(file->path() + " is not a data file of " + program.label + " (" + names(program) +
           "): its name and keys are others, and it has no manifest of a replacement adapter.");
    }
  }
  for (size_t i = 0; i < assigned.size(); ++i) {
    if (assigned[i] == nullptr) {
      const std::string path = needs.manifest.folder + program.data[i];
      if (!is_file(path)) {
        return error(path + " is missing: " + program.label + " needs the data of " +
             needs.file(program.data[i]).label + "; put it there or name it with --data.");
      }
      assigned[i] = TRY(needs.open.open(path));
    }
  }
  std::map<const DataFile*, size_t> entries;
  for (size_t i = 0; i < assigned.size(); ++i) {
    const auto [other, is_new] = entries.emplace(assigned[i].get(), i);
    if (!is_new) {
      return error(assigned[i]->path() + " is the data of both " + needs.file(program.data[other->second]).label +
           " and " + needs.file(program.data[i]).label + ", for which " + program.label +
           " needs two files; name them with --data.");
    }
  }
  return assigned;
}

std::string described(const KeyLayout& layout) {
  std::string sizes, order;
  for (size_t i = 0; i < layout.sizes.size() && i < kMaxShown; ++i) {
    sizes += (i == 0 ? "" : ", ") + std::to_string(layout.sizes[i]);
    order += (i == 0 ? "" : ", ") + std::to_string(layout.dim_order[i]);
  }
  return "a tensor of type " + std::to_string(layout.scalar_type) + " [" + sizes + "] with dimensions [" + order + "]";
}

// Says what is wrong with a key; "": nothing.
std::string difference(const DataFile& file, const std::string& key, const Manifest::Key& expected, bool verify) {
  if (!file.has(key)) {
    return "it has no key \"" + key + "\"";
  }
  const uint64_t size = file.blobs().find(key)->second.size;
  if (size != expected.size) {
    return "its key \"" + key + "\" has " + std::to_string(size) + " bytes, expected " +
        std::to_string(expected.size);
  }
  const std::optional<KeyLayout>& layout = file.blobs().find(key)->second.layout;
  if (layout && expected.layout && !(*layout == *expected.layout)) {
    return "its key \"" + key + "\" is " + described(*layout) + ", expected " + described(*expected.layout);
  }
  // A flipped bit must not become a wrong number.
  if (file.crc32_of(key) != expected.crc32) {
    return "its key \"" + key + "\" has other bytes than when it was built";
  }
  if (verify) {
    const std::string digest = file.sha256_of(key);
    if (digest != expected.sha256) {
      return "its key \"" + key + "\" has sha256 " + digest + ", expected " + expected.sha256;
    }
  }
  return "";
}

// Says why an adapter of another program does not fit this one.
std::string misfit(const Manifest::File& adapter, const Manifest::File& expected) {
  for (const auto& [key, about] : expected.keys) {
    const auto other = adapter.keys.find(key);
    if (other == adapter.keys.end()) {
      return "it has no key \"" + key + "\"";
    }
    if (other->second.size != about.size) {
      return "its key \"" + key + "\" has " + std::to_string(other->second.size) +
          " bytes, expected " + std::to_string(about.size) + " (another rank or base)";
    }
  }
  return "its program has other base weights, layers or activation scales";
}

// The manifest of another adapter, whose file has the bytes that it lists.
Result<std::shared_ptr<const Manifest>> check_other_adapter(
    const DataFile& file,
    const Needs& needs,
    bool verify,
    const std::string& why) {
  const std::string& label = needs.program.label;
  const Manifest::File& expected = needs.file(needs.program.adapter);
  const std::shared_ptr<const Manifest> manifest = TRY(adapter_manifest(file, needs.open));
  if (manifest == nullptr) {
    return error(file.path() + " is not the adapter that " + label + " was built with: " + why +
         "; another adapter needs its manifest, " + manifest_path(file.path()) + ", which is missing.");
  }
  const auto [other, adapter] = adapter_of(*manifest);
  if (other->interface != needs.program.interface) {
    return error(file.path() + " does not fit " + label + ": " + misfit(*adapter, expected) + ", and " +
         manifest->path + " has another interface than that program; build it for the model, recipe " +
         "and shared data of that program.");
  }
  for (const auto& [key, about] : expected.keys) {
    const auto listed = adapter->keys.find(key);
    if (listed == adapter->keys.end() || listed->second.size != about.size) {
      return error(file.path() + " does not fit " + label + ": its manifest has " +
           (listed == adapter->keys.end() ? "no key \"" : "another size for key \"") + key + "\"; " +
           "build it for the model and recipe of that program.");
    }
    const std::string wrong = difference(file, key, listed->second, verify);
    if (!wrong.empty()) {
      return error(file.path() + " is damaged, or not the adapter of " + manifest->path + ": " + wrong + ".");
    }
  }
  return manifest;
}

// An error, if the file lacks a key of one of the program's data files, or has other bytes for it.
//
// With `verify`, hashes all keys. Another adapter may replace the program's, if its manifest has the program's
// interface; the result is that manifest, else nullptr.
Result<std::shared_ptr<const Manifest>> check_keys(
    const DataFile& file,
    const std::string& path,
    const Needs& needs,
    bool verify) {
  const Manifest::File& expected = needs.file(path);
  if (needs.is_adapter(path)) {
    const auto manifest = TRY(adapter_manifest(file, needs.open));
    if (manifest != nullptr && adapter_of(*manifest).second->label != expected.label) {
      return check_other_adapter(file, needs, verify, "it is that of " + adapter_of(*manifest).second->label);
    }
  }
  for (const auto& [key, about] : expected.keys) {
    const std::string wrong = difference(file, key, about, verify);
    if (wrong.empty()) {
      continue;
    }
    if (needs.is_adapter(path)) {
      return check_other_adapter(file, needs, verify, wrong);
    }
    return error(file.path() + " is damaged, or not the data that " + needs.program.label + " was built with: " +
         wrong + "; build " + expected.label + " and the program together.");
  }
  return std::shared_ptr<const Manifest>();
}

Status check_program(
    const MappedFile& file,
    std::string_view bytes,
    const Needs& needs,
    bool verify) {
  const std::string& path = file.path();
  const std::string& manifest = needs.manifest.path;
  const Manifest::File& expected = needs.file(needs.program.file);
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (bytes.size() != expected.size) {
    return error(path + " has " + std::to_string(bytes.size()) + " bytes, expected " +
         std::to_string(expected.size) + " (" + manifest +
         "); it is truncated, or of another build than its manifest.");
  }
  if (expected.crc32 && file.crc32_of(data, bytes.size()) != *expected.crc32) {
    return error(path + " has other bytes than those in " + manifest +
         "; it is damaged, or of another build than its manifest.");
  }
  if (verify && !expected.sha256.empty()) {
    const std::string digest = file.sha256_of(data, bytes.size());
    if (digest != expected.sha256) {
      return error(path + " has sha256 " + digest + ", expected " + expected.sha256 + " (" +
           manifest + "); it is damaged, or of another build than its manifest.");
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
  if (verify) {
    return error("--verify needs a --manifest for " + files.program + ": it has the hashes.");
  }
  for (const std::string& path : files.data) {
    checked.data.push_back(TRY(open.open(path)));
  }
  return {};
}

// The program of a manifest by its name or, without a name, by its file, unless it is the only one.
Result<const Manifest::Program*> program_of(const Manifest& manifest, const ProgramFiles& files) {
  const Manifest::Program* only = manifest.programs.size() == 1 ? &manifest.programs.front() : nullptr;
  for (const Manifest::Program& program : manifest.programs) {
    const bool is_named = files.name.empty() ? base_name(program.file) == base_name(files.program)
                                             : program.name == files.name;
    if (is_named) {
      return &program;
    }
  }
  if (only == nullptr) {
    return error(manifest.path + " has no program " + base_name(files.program) +
         "; name the manifest that was built with it.");
  }
  return only;
}

Status check_with_manifest(
    const ProgramFiles& files,
    bool verify,
    OpenDataFiles& open,
    CheckedFiles& checked) {
  const std::shared_ptr<const Manifest> manifest = TRY(open.manifest(files.manifest));
  const Manifest::Program* program = TRY(program_of(*manifest, files));
  const Needs needs = {*manifest, *program, open};
  TRY(check_program(*checked.program, checked.program_bytes, needs, verify));
  checked.data = TRY(match_data(needs, files.data));
  checked.declared = program->declared;
  checked.cache_use.packing = program->packing;
  for (size_t i = 0; i < checked.data.size(); ++i) {
    const auto other = TRY(check_keys(*checked.data[i], program->data[i], needs, verify));
    if (other != nullptr && program->packing != nullptr) {
      checked.cache_use.packing = pack_adapter(*program->packing, *adapter_of(*other).second);
    }
  }
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

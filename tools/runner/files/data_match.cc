#include "tools/runner/files/data_match.h"

#include "tools/runner/base/fail.h"
#include "tools/runner/base/mapped_file.h"
#include "tools/runner/base/paths.h"

namespace runner {
namespace {

bool has_all_keys(const DataFile& file, const Manifest::Data& entry) {
  for (const auto& [key, wanted] : entry.keys) {
    if (!file.has(key)) {
      return false;
    }
  }
  return true;
}

bool may_be_adapter(const DataFile& file, const Manifest::Data& entry) {
  return entry.kind == "adapter" && is_file(adapter_index_path(file.path()));
}

// Gives each file that `fits` a free entry to the first such entry.
template <class Fits>
void place(DataFiles& left, const Manifest& manifest, DataFiles& placed, const Fits& fits) {
  for (auto& file : left) {
    for (size_t i = 0; i < placed.size() && file != nullptr; ++i) {
      if (placed[i] == nullptr && fits(*file, manifest.data[i])) {
        placed[i] = std::move(file);
      }
    }
  }
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

}  // namespace

std::string adapter_index_path(const std::string& data_path) {
  return without_extension(data_path) + ".index.json";
}

DataFiles match_data(
    const Manifest& manifest,
    const std::string& program,
    const std::vector<std::string>& paths,
    const std::map<std::string, std::string>& known,
    OpenDataFiles& open) {
  DataFiles left;
  for (const std::string& path : paths) {
    left.push_back(open.open(path));
  }
  DataFiles placed(manifest.data.size());
  place(left, manifest, placed, [](const DataFile& file, const Manifest::Data& entry) {
    return base_name(file.path()) == entry.file;
  });
  place(left, manifest, placed, has_all_keys);
  place(left, manifest, placed, may_be_adapter);
  for (const auto& file : left) {
    if (file != nullptr) {
      fail(file->path() + " is none of the data files of " + manifest.label + " (" +
           names(manifest) + "), nor has it the keys of one of them" +
           " or an index that would let it stand in for an adapter.");
    }
  }
  for (size_t i = 0; i < placed.size(); ++i) {
    if (placed[i] == nullptr) {
      const Manifest::Data& entry = manifest.data[i];
      const std::string path = place_of(entry, program, known);
      if (!is_file(path)) {
        fail(path + " is missing: " + manifest.label + " needs the data of " + entry.label +
             "; put it there or name it with --data.");
      }
      placed[i] = open.open(path);
    }
  }
  return placed;
}

}  // namespace runner

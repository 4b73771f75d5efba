#include "tools/runner/update/apply_update.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>
#include <set>
#include <utility>

#include "tools/runner/base/checksum.h"
#include "tools/runner/base/files.h"
#include "tools/runner/base/json.h"
#include "tools/runner/base/os.h"
#include "tools/runner/update/signature.h"
#include "tools/runner/update/update_file.h"

namespace runner {
namespace {

constexpr char kManifestFile[] = "manifest.json";
// They describe the older version only.
const std::set<std::string> kOfVersion = {kManifestFile, kSignatureFile, "SHA256SUMS"};
// Deeper folders than any app has: names of an app's own files.
constexpr int kMostDepth = 64;

Status not_written(const std::string& path) {
  return error(path + " cannot be written: " + last_error() + ".");
}

// Closes a file or folder.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) {
      close(number_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  bool close_now() { return close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

int open_folder(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

// Names in a folder, without "." and "..".
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const open = opendir(folder.c_str());
  while (const dirent* entry = open == nullptr ? nullptr : readdir(open)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") {
      names.push_back(name);
    }
  }
  if (open != nullptr) {
    closedir(open);
  }
  return names;
}

mode_t kind_of(const std::string& path) {
  struct stat status = {};
  return lstat(path.c_str(), &status) == 0 ? status.st_mode & S_IFMT : 0;
}

// Removes a folder with all that is in it; follows no links.
void remove_folder(const std::string& path) {
  if (kind_of(path) != S_IFDIR) {
    return;
  }
  // Copies of what Bazel built are read-only.
  chmod(path.c_str(), 0700);
  for (const std::string& name : names_in(path)) {
    const std::string inner = path + "/" + name;
    if (kind_of(inner) == S_IFDIR) {
      remove_folder(inner);
    } else {
      unlink(inner.c_str());
    }
  }
  rmdir(path.c_str());
}

// The folder that is updated, and the names beside it that updates use.
struct Target {
  std::string path;
  std::string parent;
  std::string current;  // The older version's folder: `path`, or what it is a link to.
  std::string next;     // The newer version's.
  bool is_link = false;
};

Result<Target> find_target(std::string path) {
  while (path.size() > 1 && path.back() == '/') {
    path.pop_back();
  }
  const std::string base = base_name(path);
  char resolved[PATH_MAX];
  // A link is replaced itself, so only the folder that contains it is resolved.
  const bool is_named = is_plain_name(base);
  const std::string parent = beside(path, ".");
  if (realpath(is_named ? parent.c_str() : path.c_str(), resolved) == nullptr) {
    return error(path + " cannot be opened: " + last_error() + ".");
  }
  Target target;
  target.path = is_named ? std::string(resolved) + "/" + base : std::string(resolved);
  target.parent = beside(target.path, ".");
  target.current = target.path;
  target.next = target.path + ".next";
  if (kind_of(target.path) != S_IFLNK) {
    if (!is_folder(target.path)) {
      return error(path + " is not a folder, expected that of an app.");
    }
    return target;
  }
  char link[PATH_MAX];
  const ssize_t length = readlink(target.path.c_str(), link, sizeof(link));
  const std::string to(link, length < 0 ? 0 : static_cast<size_t>(length));
  const std::string name = base_name(target.path);
  if (to != name + ".1" && to != name + ".2") {
    return error(
        path + " is a link to \"" + to + "\", expected one to \"" + name + ".1\" or \"" + name +
        ".2\" beside it. Rename the folder, and make the link again.");
  }
  target.is_link = true;
  target.current = beside(target.path, to);
  target.next = beside(target.path, name + (to == name + ".1" ? ".2" : ".1"));
  return target;
}

// The files of the older version.
class Installed {
 public:
  static Result<Installed> read(const std::string& folder) {
    const std::string path = folder + "/" + kManifestFile;
    const MappedFile manifest = TRY(MappedFile::open(path, "the manifest of the app"));
    Installed installed;
    installed.hash_ = sha256(manifest.data(), manifest.size());
    Result<nlohmann::json> json = parse_json(manifest.text());
    if (!json.ok()) {
      return error(path + " is not a manifest: " + json.sentence() + ".");
    }
    installed.listed_ = TRY(read_listed_files(JsonValue::of(json.take_value(), path), path));
    for (const auto& [name, file] : installed.listed_.files) {
      installed.by_hash_.emplace(file.sha256, name);
    }
    return installed;
  }

  const std::string& hash() const { return hash_; }
  const ListedFiles& listed() const { return listed_; }

  // A file with the bytes of a newer one; "": there is none.
  std::string same_as(const std::string& name, const ListedFiles::File& file) const {
    const auto own = listed_.files.find(name);
    if (own != listed_.files.end() && own->second.sha256 == file.sha256) {
      return name;
    }
    const auto other = by_hash_.find(file.sha256);
    return other == by_hash_.end() ? "" : other->second;
  }

  // A file whose bytes parts of newer files are.
  Result<const MappedFile*> open(const std::string& name) {
    auto& opened = opened_[name];
    if (opened == nullptr) {
      opened = std::make_unique<MappedFile>(
          TRY(MappedFile::open(listed_.folder + name, "a file of the app")));
    }
    return opened.get();
  }

 private:
  std::string hash_;
  ListedFiles listed_;
  std::map<std::string, std::string> by_hash_;
  std::map<std::string, std::unique_ptr<MappedFile>> opened_;
};

// Checks that each newer file is an older one, or has its parts; returns the bytes to write.
Result<uint64_t> check_parts(const Update& update, const Installed& installed, const std::string& path) {
  uint64_t bytes = update.manifest.size() + update.signature.size();
  for (const auto& [name, file] : update.listed.files) {
    if (kOfVersion.count(name) != 0) {
      return error(path + ": its manifest lists \"" + name + "\", which it cannot contain.");
    }
    if (!installed.same_as(name, file).empty()) {
      continue;
    }
    const auto parts = update.parts.find(name);
    if (parts == update.parts.end()) {
      return error(path + " lacks \"" + name + "\", which is not in the older version either.");
    }
    for (const Update::Part& part : parts->second) {
      if (part.file.empty()) {
        continue;
      }
      const auto source = installed.listed().files.find(part.file);
      const uint64_t size = source == installed.listed().files.end() ? 0 : source->second.size;
      if (part.offset > size || part.size > size - part.offset) {
        return error(
            path + ": \"" + name + "\" has bytes " + std::to_string(part.offset) + " + " +
            std::to_string(part.size) + " of \"" + part.file + "\", which has " + std::to_string(size) + ".");
      }
    }
    // All sizes together are below 2^64 on any disk.
    bytes = file.size > UINT64_MAX - bytes ? UINT64_MAX : bytes + file.size;
  }
  return bytes;
}

// The newer version's folder, while it is written.
class NewVersion {
 public:
  NewVersion(const Target& target, const Update& update, Installed& installed)
      : target_(target), update_(update), installed_(installed), folder_(target.next + "/") {}

  // The parts must have been checked.
  Status write(UpdateResult& result, UpdateFailure& failure) {
    TRY(make_folder(target_.next));
    for (const auto& [name, file] : update_.listed.files) {
      failure = UpdateFailure::kNotWritten;
      const std::string same = installed_.same_as(name, file);
      const bool is_code = update_.listed.code.count(name) != 0;
      if (!same.empty() && is_code && !is_file(old(same))) {
        // Installed elsewhere.
        continue;
      }
      TRY(make_parents(name));
      const mode_t mode = is_code ? 0755 : 0644;
      if (same.empty()) {
        TRY(write_file(name, update_.parts.at(name), mode));
        ++result.files;
        result.written += file.size;
      } else if (!link_file(same, name)) {
        TRY(write_file(name, {{same, 0, file.size}}, mode));
      }
      failure = UpdateFailure::kOtherVersion;
      TRY(check(name, file, same));
    }
    failure = UpdateFailure::kNotWritten;
    TRY(write_bytes(kManifestFile, update_.manifest));
    if (!update_.signature.empty()) {
      TRY(write_bytes(kSignatureFile, update_.signature));
    }
    TRY(keep_own_files("", 0));
    return flush_folders();
  }

 private:
  std::string old(const std::string& name) const { return target_.current + "/" + name; }

  Status make_folder(const std::string& path) {
    if (mkdir(path.c_str(), 0755) != 0) {
      return not_written(path);
    }
    folders_.insert(path);
    return {};
  }

  Status make_parents(const std::string& name) {
    for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
      const std::string path = folder_ + name.substr(0, slash);
      if (folders_.count(path) == 0) {
        TRY(make_folder(path));
      }
    }
    return {};
  }

  bool link_file(const std::string& from, const std::string& name) {
    return kind_of(old(from)) == S_IFREG && link(old(from).c_str(), (folder_ + name).c_str()) == 0;
  }

  Status write_file(const std::string& name, const std::vector<Update::Part>& parts, mode_t mode) {
    const std::string path = folder_ + name;
    Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!file.is_open()) {
      return not_written(path);
    }
    for (const Update::Part& part : parts) {
      const MappedFile* const source = part.file.empty() ? &update_.source : TRY(installed_.open(part.file));
      if (part.offset > source->size() || part.size > source->size() - part.offset) {
        return error(
            source->path() + " has " + std::to_string(source->size()) + " bytes, expected at least " +
            std::to_string(part.offset) + " + " + std::to_string(part.size) +
            "; the app is damaged: install it again.");
      }
      TRY(add(path, file.number(), source->text().substr(part.offset, part.size)));
    }
    return finish(path, file);
  }

  Status write_bytes(const std::string& name, std::string_view bytes) {
    const std::string path = folder_ + name;
    Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!file.is_open()) {
      return not_written(path);
    }
    TRY(add(path, file.number(), bytes));
    return finish(path, file);
  }

  static Status add(const std::string& path, int file, std::string_view bytes) {
    while (!bytes.empty()) {
      // Systems write at most 2 GB at once.
      const ssize_t written = ::write(file, bytes.data(), std::min(bytes.size(), size_t{1} << 24));
      if (written < 0 && errno == EINTR) {
        continue;
      }
      if (written <= 0) {
        return not_written(path);
      }
      drop_pages(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<uint64_t>(written));
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return {};
  }

  static Status finish(const std::string& path, Descriptor& file) {
    if (!flush_to_disk(file.number()) || !file.close_now()) {
      return not_written(path);
    }
    return {};
  }

  Status check(const std::string& name, const ListedFiles::File& expected, const std::string& same) {
    const MappedFile file = TRY(MappedFile::open(folder_ + name, "a file of the newer version"));
    const std::string digest = sha256(file.data(), file.size());
    if (digest == expected.sha256) {
      return {};
    }
    return error(
        old(same.empty() ? name : same) + ": the newer version of \"" + name + "\" has sha256 " + digest +
        ", expected " + expected.sha256 + ": the app is damaged, or of another build: install it again.");
  }

  // Links files that the older manifest does not list, where the newer one has none of that name.
  Status keep_own_files(const std::string& below, int depth) {
    for (const std::string& entry : names_in(old(below))) {
      const std::string name = below + entry;
      const mode_t kind = kind_of(old(name));
      if (kind == S_IFDIR && depth < kMostDepth) {
        TRY(keep_own_files(name + "/", depth + 1));
      }
      const bool is_own = installed_.listed().files.count(name) == 0 && kOfVersion.count(name) == 0;
      if (kind != S_IFREG || !is_own || kind_of(folder_ + name) != 0) {
        continue;
      }
      TRY(make_parents(name));
      if (!link_file(name, name)) {
        const MappedFile file = TRY(MappedFile::open(old(name), "a file in the app's folder"));
        TRY(write_bytes(name, file.text()));
      }
    }
    return {};
  }

  Status flush_folders() {
    for (const std::string& path : folders_) {
      const Descriptor folder(open_folder(path));
      if (!folder.is_open() || !flush_to_disk(folder.number())) {
        return not_written(path);
      }
    }
    return {};
  }

  const Target& target_;
  const Update& update_;
  Installed& installed_;
  const std::string folder_;
  std::set<std::string> folders_;
};

// The step after which the newer version is the current one.
Status make_current(const Target& target) {
  if (!target.is_link) {
    if (!exchange_folders(target.next, target.path)) {
      const std::string name = base_name(target.path);
      return error(
          target.path + " cannot be exchanged with another folder: " + last_error() + ". Rename it to \"" + name +
          ".1\", and make \"" + name + "\" a link to that.");
    }
    return {};
  }
  const std::string link = target.path + ".next";
  if (kind_of(link) == S_IFLNK) {
    unlink(link.c_str());
  }
  if (symlink(base_name(target.next).c_str(), link.c_str()) != 0) {
    return not_written(link);
  }
  if (rename(link.c_str(), target.path.c_str()) != 0) {
    Status failed = not_written(target.path);
    unlink(link.c_str());
    return failed;
  }
  return {};
}

Status check_space(const Target& target, uint64_t bytes) {
  struct statvfs disk = {};
  if (statvfs(target.parent.c_str(), &disk) != 0) {
    return {};
  }
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (free < bytes) {
    return error(
        target.path + ": the disk is full: got " + std::to_string(free) + " bytes, expected " +
        std::to_string(bytes) + " for the update. Free space, and apply it again.");
  }
  return {};
}

}  // namespace

Result<UpdateResult> apply_update(
    const std::string& folder,
    const std::string& path,
    const char* public_key,
    UpdateFailure& failure) {
  failure = UpdateFailure::kInvalidUpdate;
  const Update update = TRY(read_update(path, public_key));
  failure = UpdateFailure::kOtherVersion;
  const std::string parent = TRY(find_target(folder)).parent;
  // One update at a time; the system gives the lock back if the process dies.
  const Descriptor lock(open_folder(parent));
  if (!lock.is_open() || flock(lock.number(), LOCK_EX) != 0) {
    failure = UpdateFailure::kNotWritten;
    return not_written(parent);
  }
  const Target target = TRY(find_target(folder));
  UpdateResult result;
  result.label = update.listed.label;
  // Of an update that was killed: unfinished, or the older version.
  remove_folder(target.next);
  Installed installed = TRY(Installed::read(target.current));
  if (installed.hash() == update.to) {
    result.is_current = true;
    return result;
  }
  if (installed.hash() != update.from) {
    return error(
        target.path + "/" + kManifestFile + " has sha256 " + installed.hash() + ", expected " + update.from +
        " of " + update.from_label + ": the update is for another version of the app.");
  }
  failure = UpdateFailure::kInvalidUpdate;
  const uint64_t bytes = TRY(check_parts(update, installed, path));
  failure = UpdateFailure::kNotWritten;
  TRY(check_space(target, bytes));
  Status done = NewVersion(target, update, installed).write(result, failure);
  if (done.ok()) {
    failure = UpdateFailure::kNotWritten;
    done = make_current(target);
  }
  if (!done.ok()) {
    remove_folder(target.next);
    return done;
  }
  flush_to_disk(lock.number());
  // What was current is the other folder now.
  remove_folder(target.is_link ? target.current : target.next);
  return result;
}

}  // namespace runner

#include "tools/runner/update/update_file.h"

#include <cstring>

#include "tools/runner/base/checksum.h"
#include "tools/runner/base/json.h"
#include "tools/runner/update/signature.h"

namespace runner {
namespace {

constexpr char kMagic[] = "ETUPDATE";
constexpr size_t kHead = 16;
constexpr uint64_t kUpdateFormat = 1;

std::string hash_of(std::string_view bytes) {
  return sha256(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

Status damaged(const std::string& path, const std::string& problem) {
  return error(path + " is damaged: " + problem + ". Download the update again.");
}

// The next bytes of a file.
class Section {
 public:
  Section(const std::string& path, std::string_view bytes) : path_(path), bytes_(bytes) {}

  size_t offset() const { return offset_; }

  Result<std::string_view> take(uint64_t size, const char* what) {
    if (size > bytes_.size() - offset_) {
      return damaged(
          path_,
          std::string(what) + " ends after the file: got " + std::to_string(bytes_.size()) +
              " bytes, expected at least " + std::to_string(offset_) + " + " + std::to_string(size));
    }
    const std::string_view taken = bytes_.substr(offset_, size);
    offset_ += size;
    return taken;
  }

 private:
  const std::string& path_;
  std::string_view bytes_;
  size_t offset_ = 0;
};

Result<std::vector<Update::Part>> read_blobs(const JsonValue& header, Section& section, const std::string& path) {
  std::vector<Update::Part> blobs;
  for (const JsonValue& item : TRY(header.items("blobs"))) {
    const uint64_t size = TRY(item.number("size"));
    const size_t offset = section.offset();
    const std::string_view bytes = TRY(section.take(size, "a blob"));
    const std::string expected = TRY(item.text("sha256"));
    const std::string digest = hash_of(bytes);
    drop_pages(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    if (digest != expected) {
      return damaged(
          path, "blob " + std::to_string(blobs.size()) + ": sha256: got " + digest + ", expected " + expected);
    }
    blobs.push_back({"", offset, size});
  }
  return blobs;
}

Result<Update::Part> read_part(const JsonValue& item, const std::vector<Update::Part>& blobs) {
  if (item.has("blob")) {
    const uint64_t number = TRY(item.number("blob"));
    if (number >= blobs.size()) {
      return item.error_with("is blob " + std::to_string(number) + " of " + std::to_string(blobs.size()));
    }
    return blobs[number];
  }
  Update::Part part;
  part.file = TRY(item.text("file"));
  part.offset = TRY(item.number("offset"));
  part.size = TRY(item.number("size"));
  // Such a file is found among those of the older manifest; an empty name would be a blob.
  if (!is_plain_path(part.file)) {
    return item.error_with("names the file \"" + part.file + "\", expected a path below the app's folder");
  }
  return part;
}

// Files whose parts do not add up to what the manifest says.
Status check_sizes(const Update& update, const JsonValue& header) {
  for (const auto& [name, parts] : update.parts) {
    const auto file = update.listed.files.find(name);
    if (file == update.listed.files.end()) {
      return header.error_with("has the file \"" + name + "\", which its manifest does not list");
    }
    uint64_t left = file->second.size;
    for (const Update::Part& part : parts) {
      if (part.size > left) {
        left = UINT64_MAX;
        break;
      }
      left -= part.size;
    }
    if (left != 0) {
      return header.error_with(
          "has parts of \"" + name + "\" that are not " + std::to_string(file->second.size) +
          " bytes together, as its manifest says");
    }
  }
  return {};
}

Result<JsonValue> json_of(std::string_view text, const std::string& path, const char* what) {
  Result<nlohmann::json> json = parse_json(text);
  if (!json.ok()) {
    return damaged(path, std::string(what) + ": " + json.sentence());
  }
  return JsonValue::of(json.take_value(), path + ": " + what);
}

}  // namespace

Result<Update> read_update(const std::string& path, const char* public_key) {
  Update update = {TRY(MappedFile::open(path, "an update")), "", "", "", "", "", {}, {}};
  const std::string_view bytes = update.source.text();
  if (bytes.size() < kHead || memcmp(bytes.data(), kMagic, sizeof(kMagic) - 1) != 0) {
    return error(path + " is not an update, expected a file that et_update wrote.");
  }
  Section section(path, bytes);
  TRY(section.take(kHead, "its head"));
  uint64_t header_size = 0;
  for (size_t i = 0; i < 8; ++i) {
    header_size |= uint64_t{update.source.data()[8 + i]} << 8 * i;
  }
  const std::string_view header_text = TRY(section.take(header_size, "its header"));
  const JsonValue header = TRY(json_of(header_text, path, "its header"));
  const uint64_t format = TRY(header.number("format"));
  if (format != kUpdateFormat) {
    return error(
        path + " has format " + std::to_string(format) + ", expected 1. Apply it with the version of the app that "
        "it is for.");
  }
  const JsonValue from = TRY(header.at("previous"));
  const JsonValue to = TRY(header.at("current"));
  update.from = TRY(from.text("sha256"));
  update.from_label = TRY(from.text("label"));
  update.to = TRY(to.text("sha256"));
  const uint64_t manifest_size = TRY(to.number("size"));
  update.manifest = TRY(section.take(manifest_size, "its manifest"));
  const uint64_t signature_size = TRY(header.number("signature"));
  update.signature = TRY(section.take(signature_size, "its signature"));
  if (hash_of(update.manifest) != update.to) {
    return damaged(path, "its manifest: sha256: got " + hash_of(update.manifest) + ", expected " + update.to);
  }
  if (public_key != nullptr) {
    if (update.signature.empty()) {
      return error(path + " is not signed. Sign it: et sign " + base_name(path) + " --key KEY.");
    }
    TRY(check_signature(update.manifest, update.signature, public_key, path));
  }
  update.listed = TRY(read_listed_files(TRY(json_of(update.manifest, path, "its manifest")), path));
  const std::vector<Update::Part> blobs = TRY(read_blobs(header, section, path));
  if (section.offset() != bytes.size()) {
    return damaged(
        path, "got " + std::to_string(bytes.size()) + " bytes, expected " + std::to_string(section.offset()));
  }
  for (const auto& [name, whole] : TRY(header.members("files"))) {
    std::vector<Update::Part>& parts = update.parts[name];
    for (const JsonValue& item : TRY(whole.items("parts"))) {
      parts.push_back(TRY(read_part(item, blobs)));
    }
  }
  TRY(check_sizes(update, header));
  return update;
}

}  // namespace runner

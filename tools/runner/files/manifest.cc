#include "tools/runner/files/manifest.h"

#include <algorithm>

#include "tools/runner/base/checksum.h"
#include "tools/runner/base/files.h"
#include "tools/runner/base/json.h"

namespace runner {
namespace {

constexpr uint64_t kFormat = 1;

Status check_path(const JsonValue& json, const std::string& path) {
  return is_plain_path(path) ? Status()
                             : json.error_with("names the file \"" + path + "\", expected a path below its own folder");
}

Result<std::string> read_hash(const JsonValue& json, bool may_be_empty) {
  const std::string hash = TRY(may_be_empty ? json.text("sha256", "") : json.text("sha256"));
  const bool is_hash = (hash.size() == 64 || (hash.empty() && may_be_empty)) &&
      hash.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_hash) {
    return json.error_with("has the sha256 \"" + shortened(hash) + "\", expected 64 hexadecimal digits");
  }
  return hash;
}

Result<std::optional<uint32_t>> read_crc32(const JsonValue& json) {
  if (!json.has("crc32")) {
    return std::optional<uint32_t>();
  }
  return std::optional<uint32_t>(static_cast<uint32_t>(TRY(json.number("crc32", UINT32_MAX))));
}

Result<std::vector<uint64_t>> read_numbers(const JsonValue& json, const std::string& key, uint64_t most) {
  std::vector<uint64_t> numbers;
  for (const JsonValue& item : TRY(json.items(key))) {
    numbers.push_back(TRY(item.as_number(most)));
  }
  return numbers;
}

Result<KeyLayout> read_layout(const JsonValue& json) {
  KeyLayout layout;
  layout.scalar_type = static_cast<int8_t>(TRY(json.number("scalar_type", INT8_MAX)));
  for (const uint64_t size : TRY(read_numbers(json, "sizes", INT32_MAX))) {
    layout.sizes.push_back(static_cast<int32_t>(size));
  }
  for (const uint64_t dimension : TRY(read_numbers(json, "dim_order", UINT8_MAX))) {
    layout.dim_order.push_back(static_cast<uint8_t>(dimension));
  }
  return layout;
}

Status read_keys(const JsonValue& json, Manifest::File& file) {
  Hashes hashes;
  std::string last;
  for (const JsonValue& item : TRY(json.items("keys"))) {
    const std::string name = TRY(item.text("key"));
    Manifest::Key key;
    key.sha256 = TRY(read_hash(item, false));
    key.size = TRY(item.number("size"));
    key.crc32 = static_cast<uint32_t>(TRY(item.number("crc32", UINT32_MAX)));
    key.by_name = TRY(item.flag("by_name", false));
    if (item.has("layout")) {
      key.layout = TRY(read_layout(TRY(item.at("layout"))));
    }
    if (!file.keys.empty() && name <= last) {
      return json.error_with("has keys that are not sorted: \"" + shortened(last) + "\", \"" + shortened(name) + "\"");
    }
    if (key.by_name) {
      hashes.emplace(name, key.sha256);
    }
    file.keys.emplace(name, std::move(key));
    last = name;
  }
  file.hashes_by_name = std::make_shared<const Hashes>(std::move(hashes));
  return {};
}

Result<Manifest::File> read_file(const JsonValue& json) {
  Manifest::File file;
  file.label = TRY(json.text("label", ""));
  file.size = TRY(json.number("size"));
  file.crc32 = TRY(read_crc32(json));
  file.sha256 = TRY(read_hash(json, true));
  if (json.has("keys")) {
    TRY(read_keys(json, file));
  }
  return file;
}

Result<std::vector<std::string>> read_texts(const JsonValue& json, const std::string& key) {
  std::vector<std::string> texts;
  if (json.has(key)) {
    for (const JsonValue& item : TRY(json.items(key))) {
      texts.push_back(TRY(item.as_text()));
    }
  }
  return texts;
}

Result<std::shared_ptr<const Packing>> read_packing(
    const JsonValue& json,
    const Manifest::Program& program,
    const Manifest& manifest) {
  auto packing = std::make_shared<Packing>();
  packing->label = program.label;
  packing->interface = program.interface;
  packing->reasons = TRY(read_texts(json, "reasons"));
  if (json.has("packed")) {
    for (const auto& [name, digest] : TRY(json.members("packed"))) {
      packing->packed[name] = TRY(digest.as_text());
    }
  }
  if (json.has("of_adapter")) {
    const JsonValue listed = TRY(json.at("of_adapter"));
    for (auto item = listed.value().begin(); item != listed.value().end(); ++item) {
      packing->of_adapter[item.key()] = TRY(read_texts(listed, item.key()));
    }
  }
  if (!program.adapter.empty()) {
    packing->adapter_hashes = manifest.file(program.adapter).hashes_by_name;
  }
  return std::shared_ptr<const Packing>(std::move(packing));
}

Result<DeclaredSize> read_size(const JsonValue& json) {
  DeclaredSize size;
  size.min = static_cast<int64_t>(TRY(json.number("min", INT64_MAX)));
  size.max = static_cast<int64_t>(TRY(json.number("max", INT64_MAX)));
  size.symbol = TRY(json.text("symbol", ""));
  size.times = json.has("times") ? static_cast<int64_t>(TRY(json.number("times", INT32_MAX))) : 1;
  size.plus = json.has("plus") ? static_cast<int64_t>(TRY(json.number("plus", INT32_MAX))) : 0;
  if (size.times == 0) {
    return json.error_with("has \"times\" 0, expected at least 1");
  }
  return size;
}

Result<std::vector<DeclaredInput>> read_declared(const JsonValue& json) {
  std::vector<DeclaredInput> inputs;
  for (const JsonValue& item : TRY(json.items("sizes"))) {
    DeclaredInput input;
    input.input = TRY(item.number("input", UINT32_MAX));
    input.name = TRY(item.text("name"));
    for (const JsonValue& size : TRY(item.items("sizes"))) {
      input.sizes.push_back(TRY(read_size(size)));
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

Result<DeclaredInputs> read_methods(const JsonValue& json) {
  DeclaredInputs declared;
  for (const auto& [name, about] : TRY(json.members("methods"))) {
    if (about.has("sizes")) {
      declared[name] = TRY(read_declared(about));
    }
  }
  return declared;
}

// Tells whether a path leads into an archive of a release.
bool is_in_archive(const std::string& path, const Manifest& manifest) {
  for (size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
    if (manifest.files.count(path.substr(0, end)) != 0) {
      return true;
    }
  }
  return false;
}

Result<Manifest::Program> read_program(const std::string& name, const JsonValue& json, const Manifest& manifest) {
  Manifest::Program program;
  program.name = name;
  // The program's outputs go to a folder of that name.
  TRY(check_path(json, name));
  program.label = TRY(json.text("label"));
  program.file = TRY(json.text("file"));
  program.data = TRY(read_texts(json, "data"));
  program.adapter = TRY(json.text("adapter", ""));
  program.interface = TRY(json.text("interface", ""));
  if (manifest.files.count(program.file) == 0 && is_in_archive(program.file, manifest)) {
    return program;
  }
  std::vector<std::string> needed = program.data;
  needed.push_back(program.file);
  for (const std::string& file : needed) {
    if (manifest.files.count(file) == 0) {
      return json.error_with("needs the file \"" + shortened(file) + "\", which is not in \"files\"");
    }
  }
  if (!program.adapter.empty() &&
      std::find(program.data.begin(), program.data.end(), program.adapter) == program.data.end()) {
    return json.error_with("has the adapter \"" + shortened(program.adapter) + "\", expected one of its data");
  }
  if (json.has("methods")) {
    program.declared = TRY(read_methods(json));
  }
  if (json.has("weight_cache")) {
    const JsonValue cache = TRY(json.at("weight_cache"));
    program.packing = TRY(read_packing(cache, program, manifest));
  }
  return program;
}

Result<Manifest::Condition> read_condition(const JsonValue& json) {
  Manifest::Condition condition;
  condition.fact = TRY(json.text("fact"));
  condition.any_of = TRY(read_texts(json, "any_of"));
  condition.at_least = TRY(json.text("at_least", ""));
  condition.below = TRY(json.text("below", ""));
  return condition;
}

// Takes the names of the variants' programs out of `free`: each is a variant once.
Result<std::vector<Manifest::Variant>> read_variants(
    const JsonValue& json,
    const std::string& name,
    std::set<std::string>& free) {
  std::vector<Manifest::Variant> variants;
  for (const JsonValue& item : TRY(json.items(name))) {
    Manifest::Variant variant;
    variant.program = TRY(item.text("program"));
    if (free.erase(variant.program) == 0) {
      return item.error_with("has the program \"" + shortened(variant.program) +
                             "\", expected one of \"programs\" that is no variant yet");
    }
    if (item.has("conditions")) {
      for (const JsonValue& condition : TRY(item.items("conditions"))) {
        variant.conditions.push_back(TRY(read_condition(condition)));
      }
    }
    variants.push_back(std::move(variant));
  }
  return variants;
}

Status read_all_variants(const JsonValue& json, Manifest& manifest) {
  std::set<std::string> names;
  for (const Manifest::Program& program : manifest.programs) {
    names.insert(program.name);
  }
  std::set<std::string> free = names;
  const JsonValue listed = TRY(json.at("variants"));
  for (auto item = listed.value().begin(); item != listed.value().end(); ++item) {
    TRY(check_path(listed, item.key()));
    if (names.count(item.key()) != 0) {
      return listed.error_with("has the name \"" + shortened(item.key()) + "\", which is that of a program");
    }
    std::vector<Manifest::Variant> variants = TRY(read_variants(listed, item.key(), free));
    if (variants.empty()) {
      return listed.error_with("has no program for \"" + shortened(item.key()) + "\", expected at least one");
    }
    manifest.variants[item.key()] = std::move(variants);
  }
  return {};
}

// Files of programs that are variants, without those that other programs load, too.
std::set<std::string> files_of_variants(const Manifest& manifest) {
  std::set<std::string> programs;
  for (const auto& [name, variants] : manifest.variants) {
    for (const Manifest::Variant& variant : variants) {
      programs.insert(variant.program);
    }
  }
  std::set<std::string> of_variants;
  std::set<std::string> of_others;
  for (const Manifest::Program& program : manifest.programs) {
    std::set<std::string>& files = programs.count(program.name) != 0 ? of_variants : of_others;
    files.insert(program.file);
    files.insert(program.data.begin(), program.data.end());
  }
  for (const std::string& file : of_others) {
    of_variants.erase(file);
  }
  return of_variants;
}

Status read_code(const JsonValue& json, Manifest& manifest) {
  std::vector<std::string> paths = TRY(read_texts(json, "libraries"));
  if (json.has("binary")) {
    paths.push_back(TRY(json.text("binary")));
  }
  for (const std::string& path : paths) {
    TRY(check_path(json, path));
    manifest.code.insert(path);
  }
  return {};
}

}  // namespace

Result<Manifest> read_manifest(const std::string& path) {
  const JsonValue json = TRY(JsonValue::read(path, "a manifest"));
  const uint64_t format = TRY(json.number("format"));
  if (format != kFormat) {
    return error(path + " has format " + std::to_string(format) +
                 ", expected 1; use the runner of the rules that built it.");
  }
  Manifest manifest;
  manifest.path = path;
  manifest.folder = beside(path, "");
  manifest.label = TRY(json.text("label"));
  for (const auto& [name, about] : TRY(json.members("files"))) {
    TRY(check_path(about, name));
    manifest.files[name] = TRY(read_file(about));
  }
  if (json.has("programs")) {
    for (const auto& [name, about] : TRY(json.members("programs"))) {
      Manifest::Program program = TRY(read_program(name, about, manifest));
      if (manifest.files.count(program.file) != 0) {
        manifest.programs.push_back(std::move(program));
      }
    }
  }
  if (json.has("variants")) {
    TRY(read_all_variants(json, manifest));
  }
  TRY(read_code(json, manifest));
  return manifest;
}

const Manifest::Program* Manifest::find(const std::string& name) const {
  for (const Program& program : programs) {
    if (program.name == name) {
      return &program;
    }
  }
  return nullptr;
}

std::pair<const Manifest::Program*, const Manifest::File*> adapter_of(const Manifest& manifest) {
  for (const Manifest::Program& program : manifest.programs) {
    if (!program.adapter.empty()) {
      return {&program, &manifest.file(program.adapter)};
    }
  }
  return {nullptr, nullptr};
}

Status check_listed_files(const Manifest& manifest, bool verify) {
  const std::set<std::string> of_variants = files_of_variants(manifest);
  for (const auto& [name, expected] : manifest.files) {
    const std::string path = manifest.folder + name;
    if (of_variants.count(name) != 0) {
      continue;
    }
    if (!is_file(path)) {
      if (manifest.code.count(name) != 0) {
        continue;
      }
      return error(path + " is missing: it is part of the app " + manifest.label + "; copy the app again.");
    }
    const MappedFile file = TRY(MappedFile::open(path, "a file of the app"));
    if (file.size() != expected.size) {
      return error(path + " has " + std::to_string(file.size()) + " bytes, expected " +
           std::to_string(expected.size) + " (" + manifest.path +
           "); it is truncated, or of another build: copy the app again.");
    }
    if (!verify || expected.sha256.empty()) {
      continue;
    }
    const std::string digest = sha256(file.data(), file.size());
    if (digest != expected.sha256) {
      return error(path + " has sha256 " + digest + ", expected " + expected.sha256 + " (" + manifest.path +
           "); it is damaged, or of another build: copy the app again.");
    }
  }
  return {};
}

}  // namespace runner

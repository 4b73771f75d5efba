// Reads files as the runner does, built with sanitizers: runner_driver KIND FILE...
//
// Prints a line for each: "good", or what is wrong with it. A tokenizer also encodes the texts in FILE.texts,
// each ended by a zero byte, and decodes their tokens.

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tools/runner/bundled/bundled_file.h"
#include "tools/runner/files/executorch_files.h"
#include "tools/runner/files/manifest.h"
#include "tools/runner/files/weight_cache.h"
#include "tools/runner/llm/special_tokens.h"
#include "tools/runner/llm/tokenizer.h"
#include "tools/runner/tensors/formats.h"

namespace {

using runner::Status;

Status bundled(const std::string& path) {
  const runner::MappedFile file = TRY(runner::MappedFile::open(path, "a program"));
  TRY(runner::read_bundled(file));
  return {};
}

Status data(const std::string& path) {
  const runner::DataFile file = TRY(runner::DataFile::open(path));
  for (const auto& [key, blob] : file.blobs()) {
    file.crc32_of(key);
    file.sha256_of(key);
  }
  return {};
}

Status manifest(const std::string& path) {
  TRY(runner::read_manifest(path));
  return {};
}

Status npy(const std::string& path) {
  TRY(runner::read_npy(path));
  return {};
}

// As the loader replaces keys of a payload, in a copy.
Status payload(const std::string& path) {
  const runner::MappedFile file = TRY(runner::MappedFile::open(path, "a payload"));
  std::vector<uint8_t> bytes(file.data(), file.data() + file.size());
  if (!runner::replace_keys(bytes.data(), bytes.size(), {{"a.weight", "01234567"}, {"b", "c"}, {"", ""}})) {
    return runner::error(path + " is damaged.");
  }
  if (file.text().find("a.weight") != std::string_view::npos && memcmp(bytes.data(), file.data(), file.size()) == 0) {
    return runner::error(path + " has the same keys as before.");
  }
  return {};
}

Status program(const std::string& path) {
  const runner::MappedFile file = TRY(runner::MappedFile::open(path, "a program"));
  TRY(runner::check_program_file(path, file.text()));
  return {};
}

Status safetensors(const std::string& path) {
  const runner::SafetensorsFile file = TRY(runner::SafetensorsFile::open(path));
  TRY(file.tensor("input_0"));
  return {};
}

Status tokenizer(const std::string& path) {
  const runner::JsonValue root = TRY(runner::Tokenizer::read_file(path));
  const auto tokenizer = TRY(runner::Tokenizer::read(root));
  const auto special = TRY(runner::SpecialTokens::read(root));
  const runner::MappedFile file = TRY(runner::MappedFile::open(path + ".texts", "texts"));
  std::string_view texts = file.text();
  for (size_t end = 0; (end = texts.find('\0')) != std::string_view::npos; texts.remove_prefix(end + 1)) {
    const std::vector<runner::TextPart> parts = {{std::string(texts.substr(0, end))}};
    const std::vector<uint32_t> tokens = TRY(tokenizer->encode(parts));
    TRY(tokenizer->decode(tokens));
    TRY(special.mark({tokens, tokens}));
  }
  return {};
}

const std::map<std::string, Status (*)(const std::string&)> kReaders = {
    {"bundled", bundled},
    {"data", data},
    {"manifest", manifest},
    {"npy", npy},
    {"payload", payload},
    {"program", program},
    {"safetensors", safetensors},
    {"tokenizer", tokenizer},
};

}  // namespace

int main(int count, char** values) {
  const auto reader = count > 1 ? kReaders.find(values[1]) : kReaders.end();
  if (reader == kReaders.end()) {
    fprintf(stderr, "error: expected a kind of files and files.\n");
    return 2;
  }
  for (int i = 2; i < count; ++i) {
    const Status status = reader->second(values[i]);
    std::string line = status.ok() ? "good" : status.sentence();
    for (char& c : line) {
      // As print_error does.
      c = static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    printf("%s\n", line.c_str());
    // Of a crash it is the next file's.
    fflush(stdout);
  }
  return 0;
}

#include "tools/runner/update/signature.h"

#include <algorithm>
#include <array>
#include <vector>

#include <monocypher.h>

#include "tools/runner/app/app_manifest.h"
#include "tools/runner/base/checksum.h"
#include "tools/runner/base/files.h"
#include "tools/runner/base/json.h"

namespace runner {

const char kSignatureFile[] = "manifest.json.minisig";

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kId = 8;
constexpr size_t kKey = 32;
constexpr size_t kSignature = 64;
constexpr char kTrusted[] = "trusted comment: ";

// The bytes of a text in base64; empty: it is not of that many bytes.
Bytes from_base64(std::string_view text, size_t size) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() != (size + 2) / 3 * 4) {
    return {};
  }
  const size_t padding = (3 - size % 3) % 3;
  if (text.substr(text.size() - padding) != std::string_view("==").substr(0, padding)) {
    return {};
  }
  Bytes bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text.substr(0, text.size() - padding)) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) {
      return {};
    }
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes.push_back(static_cast<uint8_t>(bits >> count));
    }
  }
  return bytes;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') {
      line.remove_suffix(1);
    }
    lines.push_back(line);
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
  return lines;
}

// The key's identifier, then the key.
Result<Bytes> read_key(std::string_view text) {
  const std::vector<std::string_view> lines = lines_of(text);
  // The first line of a key's file is a comment.
  const std::string_view line = lines.size() > 1 ? lines[1] : lines.empty() ? "" : lines[0];
  Bytes key = from_base64(line, 2 + kId + kKey);
  if (key.empty() || key[0] != 'E' || key[1] != 'd') {
    return error(
        "public key: got \"" + std::string(line.substr(0, 80)) +
        "\", expected minisign's: 56 characters that begin with \"RW\", or the file that has them.");
  }
  key.erase(key.begin(), key.begin() + 2);
  return key;
}

std::string hexadecimal(const uint8_t* id) {
  // As minisign shows it: a number.
  std::string text;
  for (size_t i = kId; i-- > 0;) {
    text += "0123456789ABCDEF"[id[i] >> 4];
    text += "0123456789ABCDEF"[id[i] & 15];
  }
  return text;
}

// Ed25519, whose hash Monocypher leaves to its caller.
bool is_signed(const Bytes& message, const uint8_t* signature, const uint8_t* key) {
  Bytes hashed(signature, signature + 32);
  hashed.insert(hashed.end(), key, key + kKey);
  hashed.insert(hashed.end(), message.begin(), message.end());
  const std::array<uint8_t, 64> digest = sha512(hashed.data(), hashed.size());
  std::array<uint8_t, 32> reduced;
  crypto_eddsa_reduce(reduced.data(), digest.data());
  return crypto_eddsa_check_equation(signature, key, reduced.data()) == 0;
}

}  // namespace

Status check_signature(
    std::string_view text,
    std::string_view signature,
    std::string_view key,
    const std::string& what) {
  const Bytes expected = TRY(read_key(key));
  const std::vector<std::string_view> lines = lines_of(signature);
  const Bytes packet = lines.size() == 4 ? from_base64(lines[1], 2 + kId + kSignature) : Bytes();
  const Bytes global = lines.size() == 4 ? from_base64(lines[3], kSignature) : Bytes();
  if (packet.empty() || global.empty() || lines[2].substr(0, sizeof(kTrusted) - 1) != kTrusted) {
    return error(what + ": its signature is malformed, expected a .minisig file of minisign.");
  }
  if (packet[0] != 'E' || packet[1] != 'D') {
    return error(
        what + ": its signature is of the kind \"" + std::string(packet.begin(), packet.begin() + 2) +
        "\", expected \"ED\", of a hash. Sign it with minisign 0.10 or later, without -l.");
  }
  const uint8_t* id = packet.data() + 2;
  if (!std::equal(id, id + kId, expected.begin())) {
    return error(
        what + ": another key signed it: got " + hexadecimal(id) + ", expected " +
        hexadecimal(expected.data()) + ".");
  }
  const uint8_t* signed_hash = id + kId;
  const uint8_t* public_key = expected.data() + kId;
  Bytes digest(64);
  crypto_blake2b(digest.data(), digest.size(), reinterpret_cast<const uint8_t*>(text.data()), text.size());
  Bytes comment(signed_hash, signed_hash + kSignature);
  const std::string_view trusted = lines[2].substr(sizeof(kTrusted) - 1);
  comment.insert(comment.end(), trusted.begin(), trusted.end());
  if (!is_signed(digest, signed_hash, public_key) || !is_signed(comment, global.data(), public_key)) {
    return error(what + ": its signature does not fit: the file, or its signature, was changed.");
  }
  return {};
}

Status check_signed_folder(const std::string& folder, std::string_view key) {
  const std::string path = folder + "/manifest.json";
  const MappedFile manifest = TRY(MappedFile::open(path, "the manifest of an app or a release"));
  const MappedFile signature =
      TRY(MappedFile::open(folder + "/" + kSignatureFile, "the signature of " + path));
  TRY(check_signature(manifest.text(), signature.text(), key, path));
  Result<nlohmann::json> json = parse_json(manifest.text());
  if (!json.ok()) {
    return error(path + " is not a manifest: " + json.sentence() + ".");
  }
  const ListedFiles listed = TRY(read_listed_files(JsonValue::of(json.take_value(), path), path));
  return check_app_files(listed, /*verify=*/true);
}

}  // namespace runner

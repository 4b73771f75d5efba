// Signatures of manifests, in minisign's format: Ed25519 over the manifest's BLAKE2b hash.
#pragma once

#include <string>
#include <string_view>

#include "tools/runner/base/result.h"

namespace runner {

// Beside a signed manifest.json.
extern const char kSignatureFile[];

// An error, if the signature is not by the key's owner, or not of these bytes.
//
// `key` is minisign's public key: its file's text, or only the line "RW…". `signature` is the text of a .minisig
// file, and `what` names the signed text in errors.
Status check_signature(
    std::string_view text,
    std::string_view signature,
    std::string_view key,
    const std::string& what);

// Checks a folder with an app or a release: the signature of its manifest.json, which is in manifest.json.minisig, and
// the sizes and hashes of all files.
Status check_signed_folder(const std::string& folder, std::string_view key);

}  // namespace runner

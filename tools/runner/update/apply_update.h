// Replaces an app's folder, or a release's, by a newer version.
//
// The newer version is written as a whole beside the older one: unchanged files are links to the older one's, or copies
// where the system forbids links, as Android does. Each file is compared with the manifest's hash, and is on the disk
// before one step of the file system makes the newer version current. So a process that is killed, or a system that
// loses power, leaves either version, and programs that have the older one open keep its files.
//
// That step depends on what the folder's path is:
//
// - a folder: the newer version's folder, <name>.next, and the older one exchange their names. Linux and Apple's
//   systems can do so, Android since version 11.
// - a link to <name>.1 or <name>.2: a link to the other one of these replaces it. Every system can do so.
//
// Both leave at most one folder that is not current, always of the same name, which the next update removes.
#pragma once

#include <cstdint>
#include <string>

#include "tools/runner/base/result.h"

namespace runner {

// What an application has to know about an update that failed. The folder is as it was.
enum class UpdateFailure {
  kInvalidUpdate,  // The update file is damaged, or not signed with the key.
  kOtherVersion,   // The folder has not the version that the update is for, or is damaged.
  kNotWritten,     // The newer version could not be written: the disk is full.
};

struct UpdateResult {
  bool is_current = false;  // The folder had the newer version already.
  std::string label;
  uint64_t files = 0;    // That were written.
  uint64_t written = 0;  // Bytes.
};

// Applies an update. `public_key` is minisign's, as text; nullptr: the signature is not checked. Files of the folder that the
// older manifest does not list stay in it.
Result<UpdateResult> apply_update(
    const std::string& folder,
    const std::string& path,
    const char* public_key,
    UpdateFailure& failure);

}  // namespace runner

// Update files, as et_update writes them: all that a newer version of an app or a release has and an older one lacks.
//
//     "ETUPDATE"     8 bytes
//     header size    8 bytes, little-endian
//     header         JSON
//     manifest       of the newer version
//     signature      of that; may be empty
//     blobs          one after the other
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/runner/app/app_manifest.h"
#include "tools/runner/base/files.h"
#include "tools/runner/base/result.h"

namespace runner {

struct Update {
  // Bytes of a new file.
  struct Part {
    std::string file;  // In the older version; "": in the update.
    uint64_t offset = 0;
    uint64_t size = 0;
  };

  MappedFile source;
  std::string from;  // sha256 of the older manifest.
  std::string from_label;
  std::string to;    // The same of the newer one.
  std::string_view manifest;
  std::string_view signature;
  ListedFiles listed;  // What the newer manifest lists.
  std::map<std::string, std::vector<Part>> parts;  // Of each file that the older version lacks.
};

// Checks the hashes of all that is in the file, and that parts in the update lie there. An error, if it is damaged, or if
// the owner of `public_key` did not sign it; nullptr: signatures are not checked.
Result<Update> read_update(const std::string& path, const char* public_key);

}  // namespace runner

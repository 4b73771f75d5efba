// How functions of the C interfaces return errors.
#pragma once

#include <cstring>
#include <string>

#include "tools/runner/api/executorch_app.h"

namespace runner {

// Cuts a long sentence; `error` may be nullptr.
inline void write_sentence(const std::string& sentence, executorch_app_error* error) {
  if (error == nullptr) {
    return;
  }
  size_t size = sentence.size();
  if (size >= sizeof(error->sentence)) {
    size = sizeof(error->sentence) - 1;
    // Whole characters of UTF-8.
    while (size > 0 && (static_cast<unsigned char>(sentence[size]) & 0xC0) == 0x80) {
      --size;
    }
  }
  memcpy(error->sentence, sentence.data(), size);
  error->sentence[size] = '\0';
}

}  // namespace runner

// A chat in a file: its KV cache, and how far the conversation got. The program that wrote it can continue it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <executorch/runtime/core/span.h>

#include "tools/runner/base/result.h"
#include "tools/runner/llm/language_model.h"

namespace runner {

struct SavedChat {
  Session::Cursor cursor;
  std::vector<uint32_t> history;       // The tokens that were read.
  std::vector<Session::Cursor> turns;  // Where each begins.
};

// The memory of the methods that read tokens.
using ChatMemory = std::vector<executorch::runtime::Span<uint8_t>>;

// Writes the file. `identity` says which program and data it belongs to.
Status save_chat(
    const std::string& path,
    const std::string& identity,
    const SavedChat& chat,
    const ChatMemory& memory);

// Reads the file into `memory`, which it changes only if the file is whole and belongs to `identity`. An error, if it
// does not, if it is damaged, or if its conversation does not fit into `context` tokens.
Result<SavedChat> restore_chat(
    const std::string& path,
    const std::string& identity,
    uint64_t context,
    const ChatMemory& memory);

}  // namespace runner

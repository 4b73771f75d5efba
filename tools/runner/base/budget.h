// The work that a file or a text of unknown origin may cause.
//
// Parts of such inputs multiply: entries times the size of what they name, steps of a tokenizer times the text that they
// make longer. A limit for a single part is useless, so everything that reads one input shares one budget. It counts
// steps, about a byte read or written each, and allows a constant number of them for each byte of the input. Work
// beyond that, which no useful input causes, is an error.
//
// The invariant: time and memory are proportional to the steps, and the steps to the input. A budget never looks at a
// clock, so an input is read or refused alike on a busy machine and on a slow one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/runner/base/result.h"

namespace runner {

class Budget {
 public:
  // For each byte of the input, and for small inputs. Tokenizers that people use take 5 to 60 steps a byte.
  static constexpr uint64_t kStepsPerByte = 256;
  static constexpr uint64_t kFreeSteps = 256 << 20;

  // For a byte of memory that stays in use.
  static constexpr uint64_t kStepsPerHeldByte = 64;

  // `where` begins errors: the file. `work` is the rest of the sentence: "reading it takes too long"; `advice` is a
  // sentence of what to do.
  Budget(std::string where, std::string work, std::string advice, uint64_t bytes);

  // More input.
  void grow(uint64_t bytes) { bytes_ += bytes; }

  // Counts steps; an error if there are too many. Work without bytes is a step, too.
  Status spend(uint64_t steps);

  // Number of steps that may still follow.
  uint64_t left() const { return limit() - spent_; }

  // "<where>: <problem>."
  Status error_with(const std::string& problem) const { return error(where_ + ": " + problem + "."); }

  const std::string& where() const { return where_; }

 private:
  uint64_t limit() const { return kFreeSteps + kStepsPerByte * bytes_; }

  std::string where_;
  std::string work_;
  std::string advice_;
  uint64_t bytes_;
  uint64_t spent_ = 0;
};

}  // namespace runner

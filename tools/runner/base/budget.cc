#include "tools/runner/base/budget.h"

#include <utility>

namespace runner {

Budget::Budget(std::string where, std::string work, std::string advice, uint64_t bytes)
    : where_(std::move(where)), work_(std::move(work)), advice_(std::move(advice)), bytes_(bytes) {}

Status Budget::spend(uint64_t steps) {
  // The cost of a step without bytes.
  constexpr uint64_t kStep = 8;
  if (steps >= left() || steps + kStep > left()) {
    spent_ = limit();
    return error(where_ + ": " + work_ + ": got more than " + std::to_string(limit()) + " steps for " +
                 std::to_string(bytes_) + " bytes, expected fewer. " + advice_);
  }
  spent_ += steps + kStep;
  return {};
}

}  // namespace runner

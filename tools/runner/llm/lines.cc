#include "tools/runner/llm/lines.h"

#include <unistd.h>

#include "tools/runner/base/fail.h"

namespace runner {
namespace {

constexpr size_t kLongest = 1 << 20;

}  // namespace

std::optional<std::string> Lines::next() {
  while (true) {
    const size_t end = waiting_.find('\n');
    if (end != std::string::npos || has_ended_) {
      if (end == std::string::npos && waiting_.empty()) {
        return std::nullopt;
      }
      std::string line = waiting_.substr(0, end);
      waiting_.erase(0, end == std::string::npos ? end : end + 1);
      return line;
    }
    if (waiting_.size() > kLongest) {
      fail("--chat: a line has more than a million bytes.");
    }
    char piece[4096];
    const ssize_t length = read(STDIN_FILENO, piece, sizeof(piece));
    has_ended_ = length <= 0;
    waiting_.append(piece, length > 0 ? static_cast<size_t>(length) : 0);
  }
}

}  // namespace runner

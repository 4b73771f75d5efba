#include "tools/runner/llm/session.h"

namespace runner {

const std::vector<float>& Session::read(const std::vector<uint32_t>& tokens) {
  unread_.insert(unread_.end(), tokens.begin(), tokens.end());
  const std::vector<float>* logits = nullptr;
  for (size_t at = 0; at < unread_.size();) {
    const size_t count = model_.next_count(unread_.size() - at);
    logits = &model_.run(unread_.data() + at, count, read_);
    read_ += count;
    at += count;
  }
  unread_.clear();
  return *logits;
}

void Session::clear() {
  read_ = 0;
  unread_.clear();
}

}  // namespace runner

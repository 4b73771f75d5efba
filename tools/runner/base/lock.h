// A lock for short work. No std::mutex: its size differs in Android's headers.
#pragma once

#include <sched.h>

#include <atomic>

namespace runner {

class Lock {
 public:
  // `flag` is clear while nobody has the lock.
  explicit Lock(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) {
      sched_yield();
    }
  }
  ~Lock() { flag_.clear(std::memory_order_release); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  std::atomic_flag& flag_;
};

}  // namespace runner

// How long things take.
#pragma once

#include <chrono>

namespace runner {

inline std::chrono::steady_clock::time_point now() {
  return std::chrono::steady_clock::now();
}

inline double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(now() - start).count();
}

}  // namespace runner

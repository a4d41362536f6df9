// Milliseconds on the clock that only goes forward.
#pragma once

#include <chrono>

namespace neap {

using Clock = std::chrono::steady_clock;

inline double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace neap

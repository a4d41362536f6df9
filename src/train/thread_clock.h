#pragma once

#include <ctime>

namespace neap {

// Processor time of this thread in milliseconds: what others take from it meanwhile does not count.
inline double thread_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

}  // namespace neap

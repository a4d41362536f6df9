// While it lives, parallel regions that this thread begins have one thread: small work beside training makes no second
// team on the same cores.
#pragma once

#include <omp.h>

namespace neap {

class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace neap

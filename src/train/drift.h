// Sees when measured step times move away from the predicted ones: the Page-Hinkley test, both ways.
#pragma once

#include <cstdint>

namespace neap {

class Drift {
 public:
  // True once, when the ratio has moved; then it begins anew.
  bool add(double measured_ms, double predicted_ms);

 private:
  std::int64_t count_ = 0;
  double mean_ = 0;  // of log(measured / predicted)
  double up_ = 0;    // sum of what lies above the mean by more than the tolerance, and its least so far
  double up_least_ = 0;
  double down_ = 0;
  double down_most_ = 0;
};

// The same where the prediction is right as long as nothing moves: sums of what lies beyond the tolerance of it.
class Shift {
 public:
  // True from when it has moved until it is back, or told so.
  bool add(double measured_ms, double predicted_ms);
  void reset() { up_ = down_ = 0; }

 private:
  double up_ = 0;
  double down_ = 0;
};

}  // namespace neap

#include "train/drift.h"

#include <algorithm>
#include <cmath>

namespace neap {
namespace {

constexpr double kTolerance = 0.1;       // about a tenth of the step time: noise
constexpr double kThreshold = 1.0;       // twice the time is seen after two steps, a quarter more after nine
constexpr std::int64_t kFirstSteps = 5;  // a mean of fewer says nothing

constexpr double kShift = 0.6;  // twice the time is seen after two steps, a quarter more after five

}  // namespace

bool Drift::add(double measured_ms, double predicted_ms) {
  if (!(measured_ms > 0) || !(predicted_ms > 0)) return false;
  const double x = std::log(measured_ms / predicted_ms);
  mean_ += (x - mean_) / static_cast<double>(++count_);
  up_ += x - mean_ - kTolerance;
  down_ += x - mean_ + kTolerance;
  up_least_ = std::min(up_least_, up_);
  down_most_ = std::max(down_most_, down_);
  const bool has_moved = count_ > kFirstSteps && (up_ - up_least_ > kThreshold || down_most_ - down_ > kThreshold);
  if (has_moved) *this = {};
  return has_moved;
}

// One step counts for no more than the half of what it takes.
bool Shift::add(double measured_ms, double predicted_ms) {
  if (!(measured_ms > 0) || !(predicted_ms > 0)) return false;
  const double x = std::log(measured_ms / predicted_ms);
  constexpr double kMost = 2 * kShift;  // so that it comes back
  up_ = std::clamp(up_ + std::min(x, kShift / 2 + kTolerance) - kTolerance, 0.0, kMost);
  down_ = std::clamp(down_ + std::min(-x, kShift / 2 + kTolerance) - kTolerance, 0.0, kMost);
  return up_ > kShift || down_ > kShift;
}

}  // namespace neap

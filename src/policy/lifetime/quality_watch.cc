#include "policy/lifetime/quality_watch.h"

#include <algorithm>

namespace neap {

void QualityWatch::add(StepQuality step) {
  recent_.push_back(step);
  if (recent_.size() > kRecent) recent_.pop_front();
}

bool QualityWatch::is_wrong(const StepQuality& step) const {
  return step.own > kFine && (step.own > step.last_value || step.own > 2 * expected_);
}

bool QualityWatch::is_consistently_wrong() const {
  const auto count = std::ranges::count_if(recent_, [this](const StepQuality& s) { return is_wrong(s); });
  return static_cast<std::size_t>(count) >= kMost;
}

void QualityWatch::expect(double own) {
  expected_ = own;
  recent_.clear();
}

double QualityWatch::recent_mean() const {
  double sum = 0;
  for (const StepQuality& s : recent_) sum += s.own;
  return recent_.empty() ? 0 : sum / static_cast<double>(recent_.size());
}

}  // namespace neap

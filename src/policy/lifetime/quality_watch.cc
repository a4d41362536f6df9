#include "policy/lifetime/quality_watch.h"

#include <algorithm>

namespace neap {

void QualityWatch::add(StepQuality step) {
  recent_.push_back(step);
  if (recent_.size() > kLong) recent_.pop_front();
}

bool QualityWatch::is_wrong(const StepQuality& step) const {
  return step.own > kFine && (step.own > step.last_value || step.own > 2 * expected_);
}

bool QualityWatch::is_consistently_wrong() const {
  std::size_t wrong = 0;
  for (std::size_t i = 1; i <= recent_.size(); ++i) {
    wrong += is_wrong(recent_[recent_.size() - i]) ? 1 : 0;
    if (i == kShort && wrong >= kShort / 2) return true;
  }
  return wrong >= kLong / 4;
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

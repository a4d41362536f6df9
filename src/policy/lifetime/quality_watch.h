// Watches how good the predictions of a run are, step by step, and says when they are consistently wrong.
#pragma once

#include <cstddef>
#include <deque>

namespace neap {

// Pinball losses of one step: of the predictor, and of the last value seen at each site.
struct StepQuality {
  double own = 0;
  double last_value = 0;
};

// A step went wrong when it was worse than the last value, or twice as bad as what the predictor had shown on steps
// that it was not trained on. Consistently: half of the last 8 steps, or a quarter of the last 32. A count cannot be
// upset by one wild step.
class QualityWatch {
 public:
  void add(StepQuality step);
  bool is_consistently_wrong() const;

  // The predictor is another one now, which has shown this loss; or training anew did not help, and this is what one
  // has to live with.
  void expect(double own);
  double expected() const { return expected_; }
  double recent_mean() const;  // of own

 private:
  static constexpr std::size_t kShort = 8;
  static constexpr std::size_t kLong = 32;
  static constexpr double kFine = 0.005;  // half a percent of a lifespan is no reason for anything

  bool is_wrong(const StepQuality& step) const;

  std::deque<StepQuality> recent_;
  double expected_ = 0;
};

}  // namespace neap

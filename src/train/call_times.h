// What calls take, from several steps: a step alone is what the machine did just then.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "plan/plan.h"

namespace neap {

class CallTimes {
 public:
  static constexpr std::size_t kSteps = 5;  // a median of so many leaves single disturbances out

  // A step of the plan, whose instructions took so long; `nodes` has the program.
  void add(const Plan& plan, const std::vector<double>& instruction_ms, std::size_t nodes);
  // Begins anew: what was measured no longer holds.
  void clear() { steps_.clear(); }

  bool is_empty() const { return steps_.empty(); }
  bool is_complete() const { return steps_.size() >= kSteps; }
  std::int64_t bytes() const;
  // The medians, one a node; of two the smaller, since disturbances only add. Nodes that did not run stay as they are.
  void write(std::vector<double>& ms) const;

 private:
  std::vector<std::vector<double>> steps_;  // per node; negative: it did not run
};

// What steps take, as a part of what their calls say: the time between calls, and whatever else the machine does of
// late.
class Pace {
 public:
  void add(double ratio) { ratios_[count_++ % ratios_.size()] = ratio; }
  void clear() { count_ = 0; }
  double median() const;  // of the last steps; 1 before the first

 private:
  std::array<double, 9> ratios_{};
  std::size_t count_ = 0;
};

}  // namespace neap

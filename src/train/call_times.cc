#include "train/call_times.h"

#include <algorithm>

namespace neap {

void CallTimes::add(const Plan& plan, const std::vector<double>& instruction_ms, std::size_t nodes) {
  std::vector<double>& step = steps_.emplace_back(nodes, -1.0);
  for (std::size_t i = 0; i < instruction_ms.size(); ++i) {
    const Instruction& in = plan.instructions[i];
    if (in.action == Action::kRun) step[in.node.index] = instruction_ms[i];
  }
}

std::int64_t CallTimes::bytes() const {
  std::size_t out = 0;
  for (const std::vector<double>& step : steps_) out += step.size() * sizeof(double);
  return static_cast<std::int64_t>(out);
}

void CallTimes::write(std::vector<double>& ms) const {
  std::vector<double> samples;
  for (std::size_t node = 0; node < ms.size(); ++node) {
    samples.clear();
    for (const std::vector<double>& step : steps_) {
      if (step[node] >= 0) samples.push_back(step[node]);
    }
    if (samples.empty()) continue;
    const auto middle = samples.begin() + static_cast<std::ptrdiff_t>((samples.size() - 1) / 2);
    std::nth_element(samples.begin(), middle, samples.end());
    ms[node] = *middle;
  }
}

double Pace::median() const {
  const std::size_t count = std::min(count_, ratios_.size());
  if (count == 0) return 1;
  std::array<double, 9> sorted = ratios_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((count - 1) / 2);
  std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(count));
  return *middle;
}

}  // namespace neap

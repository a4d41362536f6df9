// What each node of a step took, by what was done to the piece in which it lay: however the step is cut into pieces
// later on, what was measured holds for the new ones too.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace neap {

class StrategyTimes {
 public:
  void clear() { by_action_.clear(); }
  // `nodes`: how many there are.
  void set(int action, std::uint32_t node, std::size_t nodes, double ms) {
    auto [at, is_new] = by_action_.try_emplace(action);
    if (is_new) at->second.assign(nodes, kUnknown);
    at->second[node] = ms;
  }
  // Of the nodes [first, last) together; none: of one of them it is not known.
  std::optional<double> of(int action, std::uint32_t first, std::uint32_t last) const {
    const auto at = by_action_.find(action);
    if (at == by_action_.end()) return std::nullopt;
    double sum = 0;
    for (std::uint32_t i = first; i < last; ++i) {
      if (at->second[i] < 0) return std::nullopt;
      sum += at->second[i];
    }
    return sum;
  }

 private:
  static constexpr double kUnknown = -1;
  std::map<int, std::vector<double>> by_action_;  // milliseconds
};

}  // namespace neap

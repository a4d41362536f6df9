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
  struct Known {
    double ms = 0;
    double error_ms = 0;
  };

  void clear() { by_action_.clear(); }
  // `nodes`: how many there are.
  void set(int action, std::uint32_t node, std::size_t nodes, Known known) {
    auto [at, is_new] = by_action_.try_emplace(action);
    if (is_new) at->second.assign(nodes, {.ms = kUnknown});
    at->second[node] = known;
  }
  // Of the nodes [first, last) together, whose errors come from the same steps and add up; none: of one of them it is
  // not known.
  std::optional<Known> of(int action, std::uint32_t first, std::uint32_t last) const {
    const auto at = by_action_.find(action);
    if (at == by_action_.end()) return std::nullopt;
    Known sum;
    for (std::uint32_t i = first; i < last; ++i) {
      if (at->second[i].ms < 0) return std::nullopt;
      sum.ms += at->second[i].ms;
      sum.error_ms += at->second[i].error_ms;
    }
    return sum;
  }

  std::int64_t bytes() const {
    std::size_t out = 0;
    for (const auto& [action, nodes] : by_action_) out += nodes.size() * sizeof(Known);
    return static_cast<std::int64_t>(out);
  }

 private:
  static constexpr double kUnknown = -1;
  std::map<int, std::vector<Known>> by_action_;
};

}  // namespace neap

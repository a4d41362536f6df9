// Levels under a budget: what a tolerance allows in fewer bits is encoded where that pays, since encoding takes time.
#pragma once

#include <optional>

#include "policy/policy.h"

namespace neap {

// Which of the tensors that `base` keeps are stored in the levels that the problem allows them. What saves the most
// bytes for the codec's time comes first.
class LevelSearch {
 public:
  LevelSearch(const PlanningProblem& problem, Decisions base);

  // The fewest of them within the budget. None: not even all of them fit.
  std::optional<Plan> fastest(std::int64_t budget) const;

 private:
  Decisions with(std::size_t count) const;
  std::size_t fewest(std::int64_t budget) const;

  const PlanningProblem& p_;
  Decisions base_;
  std::vector<Window> views_;
  std::vector<TensorId> order_;
};

}  // namespace neap

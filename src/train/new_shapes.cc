#include "train/new_shapes.h"

#include <algorithm>

#include "neap/error.h"
#include "plan/validate.h"

namespace neap {

Plan NewShapes::plan(const Policy& policy, const PlanningProblem& problem, std::optional<std::int64_t> budget,
                     std::int64_t capacity, std::int64_t length) {
  unseen_.reset();
  if (predictor_ != nullptr) {
    PoolOutcome outcome = plan_with_pool(problem.graph, problem.costs, *predictor_,
                                         {.capacity = std::min(budget.value_or(capacity), capacity),
                                          .layout = problem.layout,
                                          .length = length,
                                          .link = problem.link});
    unseen_ = std::move(outcome.events);
    if (outcome.plan) {
      if (const auto error = validate(*outcome.plan, problem.graph, problem.costs)) {
        throw InternalError("pool's plan: " + *error);
      }
      ++from_pool_;
      last_ = outcome.stats;
      return std::move(*outcome.plan);
    }
  }
  ++from_policy_;
  return plan_within(policy, problem, budget);
}

void NewShapes::note_step() {
  if (!unseen_) return;
  predictor_->observe(unseen_->events, unseen_->lifespans);
  unseen_.reset();
}

}  // namespace neap

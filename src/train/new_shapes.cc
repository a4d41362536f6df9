#include "train/new_shapes.h"

#include <algorithm>

#include "neap/error.h"
#include "plan/validate.h"
#include "policy/lifetime/lstm_predictor.h"
#include "pool/simple_predictors.h"

namespace neap {

NewShapes::NewShapes(std::string predictor, std::uint64_t seed) : name_(std::move(predictor)), seed_(seed) {
  const bool is_network = name_.starts_with("lstm");
  if (!is_network) predictor_named(name_);
}

Plan NewShapes::plan(const Policy& policy, const PlanningProblem& problem, std::optional<std::int64_t> budget,
                     std::int64_t capacity, std::int64_t length) {
  if (predictor_ == nullptr) predictor_ = make_lifetime_predictor(name_, seed_);
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
  ++from_policy_;
  return plan_within(policy, problem, budget);
}

void NewShapes::note_step() {
  if (!unseen_ || unseen_->events.empty()) return;
  predictor_->observe(unseen_->events, unseen_->lifespans);
  unseen_.reset();
}

}  // namespace neap

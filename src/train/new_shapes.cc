#include "train/new_shapes.h"

#include <fmt/format.h>

#include <algorithm>

#include "neap/error.h"
#include "plan/validate.h"
#include "policy/lifetime/lstm_predictor.h"
#include "pool/simple_predictors.h"

namespace neap {
namespace {

constexpr std::string_view kExact = "exact";

}  // namespace

NewShapes::NewShapes(std::string predictor, std::uint64_t seed) : name_(std::move(predictor)), seed_(seed) {
  const std::vector<std::string_view> simple = predictor_names();
  const bool is_simple = std::find(simple.begin(), simple.end(), name_) != simple.end();
  if (is_simple || name_ == kExact || name_ == "lstm" || name_ == "lstm-layers") return;
  throw UserError(
      fmt::format("--lifetimes '{}': take lstm, lstm-layers, {} or {}", name_, fmt::join(simple, ", "), kExact));
}

std::optional<Plan> NewShapes::plan_by_pool(const PlanningProblem& problem, const PoolSettings& settings) {
  if (predictor_ == nullptr) predictor_ = make_lifetime_predictor(name_, seed_);
  PoolOutcome outcome = plan_with_pool(problem.graph, problem.costs, *predictor_, settings);
  unseen_ = std::move(outcome.events);
  if (!outcome.plan) return std::nullopt;
  if (const auto error = validate(*outcome.plan, problem.graph, problem.costs)) {
    throw InternalError("pool's plan: " + *error);
  }
  last_ = outcome.stats;
  return std::move(outcome.plan);
}

std::optional<Plan> NewShapes::plan(const Policy& policy, const PlanningProblem& problem, std::int64_t capacity,
                                    std::int64_t length) {
  unseen_.reset();
  std::optional<Plan> plan;
  if (name_ != kExact) {
    plan = plan_by_pool(problem, {.capacity = capacity,
                                  .layout = problem.layout,
                                  .length = length,
                                  .link = problem.link,
                                  .may_spill = &policy == &spill_policy()});
  }
  ++(plan ? from_pool_ : from_policy_);
  return plan;
}

void NewShapes::note_step() {
  if (!unseen_ || unseen_->events.empty()) return;
  predictor_->observe(unseen_->events, unseen_->lifespans);
  unseen_.reset();
}

}  // namespace neap

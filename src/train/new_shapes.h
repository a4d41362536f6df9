// Plans for batches of a shape that the run has not seen before: at once, by the temporal pool with predicted
// lifetimes. The policy's own plan can follow while steps go on.
#pragma once

#include <memory>
#include <optional>

#include "policy/policy.h"
#include "pool/pool_plan.h"

namespace neap {

class NewShapes {
 public:
  // Null: no predictions, always the policy's plan.
  explicit NewShapes(std::unique_ptr<LifetimePredictor> predictor) : predictor_(std::move(predictor)) {}

  // Valid. `capacity` is what the arena has. The pool's plan where it fits, else the policy's.
  Plan plan(const Policy& policy, const PlanningProblem& problem, std::optional<std::int64_t> budget,
            std::int64_t capacity, std::int64_t length);
  // A step of the shape planned last has run: the predictor learns its lifetimes, once.
  void note_step();

  const PoolStats& last() const { return last_; }  // of the pool's last plan
  std::int64_t from_pool() const { return from_pool_; }
  std::int64_t from_policy() const { return from_policy_; }

 private:
  std::unique_ptr<LifetimePredictor> predictor_;
  std::optional<StepEvents> unseen_;  // events that the predictor has not observed yet
  PoolStats last_;
  std::int64_t from_pool_ = 0;
  std::int64_t from_policy_ = 0;
};

}  // namespace neap

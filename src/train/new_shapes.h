// Plans for batches of a shape that the run has not seen before: at once, by the temporal pool with predicted
// lifetimes. The policy's own plan can follow while steps go on.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "policy/policy.h"
#include "pool/pool_plan.h"

namespace neap {

class NewShapes {
 public:
  // By the name of a predictor (make_lifetime_predictor), which is made when the first new shape comes; "exact": none,
  // the policy plans at once. UserError lists the names when there is none such.
  NewShapes(std::string predictor, std::uint64_t seed);

  // The pool's plan, valid and within the capacity (it spills only for the policy that does); none: it found none.
  std::optional<Plan> plan(const Policy& policy, const PlanningProblem& problem, std::int64_t capacity,
                           std::int64_t length);
  // A step of the shape planned last has run: the predictor learns its lifetimes, once.
  void note_step();

  // Of the predictor.
  std::int64_t bytes() const { return predictor_ != nullptr ? predictor_->own_bytes() : 0; }

  const PoolStats& last() const { return last_; }  // of the pool's last plan
  std::int64_t from_pool() const { return from_pool_; }
  std::int64_t from_policy() const { return from_policy_; }

 private:
  std::optional<Plan> plan_by_pool(const PlanningProblem& problem, const PoolSettings& settings);

  std::string name_;
  std::uint64_t seed_;
  std::unique_ptr<LifetimePredictor> predictor_;  // null: no new shape yet
  std::optional<StepEvents> unseen_;              // events that the predictor has not observed yet
  PoolStats last_;
  std::int64_t from_pool_ = 0;
  std::int64_t from_policy_ = 0;
};

}  // namespace neap

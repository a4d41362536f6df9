// `oracle`: the fastest plan that Neap knows by all means that the run has, searched for as long as it takes. What the
// adaptive policy, which plans while training runs, is measured against.
#include <limits>

#include "plan/simulate.h"
#include "policy/joint.h"
#include "policy/policy.h"

namespace neap {
namespace {

class JointOracle final : public Policy {
 public:
  explicit JointOracle(bool may_spill) : may_spill_(may_spill) {}

  std::string_view name() const override { return "oracle"; }

  Plan smallest(const PlanningProblem& problem) const override { return joint_smallest(problem, may_spill_); }

  std::optional<Plan> within(const PlanningProblem& problem, std::int64_t budget) const override {
    std::optional<Plan> recomputes = oracle_policy().within(without_choice(problem), budget);
    if (!may_spill_ && !has_choice_of_levels(problem)) return recomputes;
    const double ms =
        recomputes ? simulate(*recomputes, problem.costs, problem.link).ms : std::numeric_limits<double>::infinity();
    std::optional<TimedPlan> joint = joint_within(problem, budget, ms, may_spill_, kJointThorough);
    return joint ? std::optional(std::move(joint->plan)) : recomputes;
  }

 private:
  bool may_spill_;
};

}  // namespace

std::shared_ptr<const Policy> joint_oracle_policy(bool may_spill) { return std::make_shared<JointOracle>(may_spill); }

}  // namespace neap

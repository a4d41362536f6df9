#include "train/settle.h"

#include "plan/rounding.h"
#include "plan/simulate.h"

namespace neap {
namespace {

// So much longer a step may take for the sake of plans that follow measured times.
constexpr double kWorth = 1.03;

}  // namespace

// A plan may read a tensor rounded here and exact there. Others that follow measured times round it everywhere, or
// nowhere: so one that does is preferred.
Plan settling_plan(const Policy& policy, const PlanningProblem& p, std::optional<std::int64_t> budget) {
  const std::shared_ptr<const Policy> fresh = policy.untaught();
  const Policy& untaught = fresh ? *fresh : policy;
  Plan plan = plan_within(untaught, p, budget);
  const StoredLevels settled = settled_levels(plan, p.graph, levels_of(p));
  const PlanningProblem again{p.graph, p.costs, p.link, p.layout, &settled};
  const std::uint64_t plain = rounding_key(plan_within(store_all_policy(), again, std::nullopt), p.graph);
  if (!budget || rounding_key(plan, p.graph) == plain) return plan;
  Plan other = plan_within(untaught, again, budget);
  const auto ms = [&](const Plan& each) { return simulate(each, p.costs, p.link).ms; };
  const bool is_good = other.peak_bytes <= *budget && rounding_key(other, p.graph) == plain;
  return is_good && ms(other) <= kWorth * ms(plan) ? other : plan;
}

}  // namespace neap

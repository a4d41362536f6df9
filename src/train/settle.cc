#include "train/settle.h"

#include "plan/rounding.h"
#include "plan/simulate.h"

namespace neap {
namespace {

// So much longer a step may take for the sake of plans that follow measured times,
constexpr double kWorth = 1.03;
// and so much without transfers: rounding has its price, too, and no guess says which of both is the dearer one.
constexpr double kWorthStaying = 1.005;

double ms_of(const Plan& plan, const PlanningProblem& p) { return simulate(plan, p.costs, p.link).ms; }

// Of all guesses that of the link is the least sure, and what is settled stays: a tensor that a transfer spares from
// being rounded has to leave on every machine, however slow its link beside its cores; one that is rounded may leave.
Plan with_few_transfers(const Policy& policy, const PlanningProblem& p, std::optional<std::int64_t> budget) {
  Plan plan = plan_within(policy, p, budget);
  if (!budget || plan.slots.empty()) return plan;
  PlanningProblem closed = p;
  closed.link.room_bytes = 0;
  Plan inside = plan_within(policy, closed, budget);
  const bool is_good = inside.slots.empty() && inside.peak_bytes <= *budget;
  return is_good && ms_of(inside, p) <= kWorthStaying * ms_of(plan, p) ? inside : plan;
}

}  // namespace

// A plan may read a tensor rounded here and exact there. Others that follow measured times round it everywhere, or
// nowhere: so one that does is preferred.
Plan settling_plan(const Policy& policy, const PlanningProblem& p, std::optional<std::int64_t> budget) {
  const std::shared_ptr<const Policy> fresh = policy.untaught();
  const Policy& untaught = fresh ? *fresh : policy;
  Plan plan = with_few_transfers(untaught, p, budget);
  const StoredLevels settled = settled_levels(plan, p.graph, levels_of(p));
  const PlanningProblem again{p.graph, p.costs, p.link, p.layout, &settled};
  const std::uint64_t plain = rounding_key(plan_within(store_all_policy(), again, std::nullopt), p.graph);
  if (!budget || rounding_key(plan, p.graph) == plain) return plan;
  Plan other = plan_within(untaught, again, budget);
  const bool is_good = other.peak_bytes <= *budget && rounding_key(other, p.graph) == plain;
  return is_good && ms_of(other, p) <= kWorth * ms_of(plan, p) ? other : plan;
}

}  // namespace neap

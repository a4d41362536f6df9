// Keeps everything, whatever the budget.
#include "policy/policy.h"

namespace neap {
namespace {

class StoreAll final : public Policy {
 public:
  std::string_view name() const override { return "store-all"; }
  Plan smallest(const PlanningProblem& p) const override {
    Decisions decisions = store_all(p.graph);
    decisions.levels = levels_of(p);
    return std::get<Plan>(make_plan(p.graph, p.costs, decisions, kNoBudget, p.layout));
  }
  std::optional<Plan> within(const PlanningProblem& p, std::int64_t budget) const override {
    Plan plan = smallest(p);
    return plan.peak_bytes <= budget ? std::optional(std::move(plan)) : std::nullopt;
  }
  bool wants_times() const override { return false; }
};

}  // namespace

const Policy& store_all_policy() {
  static const StoreAll policy;
  return policy;
}

}  // namespace neap

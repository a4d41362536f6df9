// Evicts as it goes the tensor of the least cost / (bytes · staleness), in the simulator (Kirisame et al., "Dynamic
// tensor rematerialization").
#include <algorithm>

#include "policy/abstract.h"
#include "policy/policy.h"
#include "remat/walk.h"

namespace neap {
namespace {

class Dtr final : public Policy {
 public:
  std::string_view name() const override { return "dtr"; }
  std::optional<PolicyRule> rule() const override {
    return PolicyRule{Means::kAgain, "drops what is cheap, large and long unused"};
  }

  Plan smallest(const PlanningProblem& p) const override {
    Walker walker(p);
    Plan best = walker.store_all();
    for (std::int64_t budget = walker.eager_bytes(); budget > 0; budget = budget * 9 / 10) {
      const std::optional<Plan> plan = walker.plan(budget);
      if (!plan) break;
      if (plan->peak_bytes < best.peak_bytes) best = *plan;
    }
    return best;
  }

  // The most generous abstract budget whose plan fits.
  std::optional<Plan> within(const PlanningProblem& p, std::int64_t budget) const override {
    constexpr int kHalvings = 7;
    Walker walker(p);
    Plan kept = walker.store_all();
    if (kept.peak_bytes <= budget) return kept;
    std::int64_t low = 0;
    std::int64_t high = walker.eager_bytes();
    std::optional<Plan> best;
    for (int i = 0; i < kHalvings; ++i) {
      const std::int64_t middle = low + (high - low) / 2;
      std::optional<Plan> plan = walker.plan(middle);
      const bool is_too_large = plan && plan->peak_bytes > budget;
      if (plan && !is_too_large) best = std::move(plan);
      (is_too_large ? high : low) = middle;
    }
    if (!best) best = smallest(p);
    return best->peak_bytes <= budget ? std::move(best) : std::nullopt;
  }

 private:
  class Walker {
   public:
    explicit Walker(const PlanningProblem& p) : r_(p), program_(abstract_of(r_)), uses_(program_.problem) {}

    Plan store_all() const { return plan_of(r_, r_.store_all); }
    std::int64_t eager_bytes() const {
      return remat::replay(program_.problem, remat::eager_schedule(program_.problem)).peak_bytes;
    }
    std::optional<Plan> plan(std::int64_t budget) const {
      const remat::WalkRules rules{.is_dtr = true,
                                   .most_ms = 20 * remat::baseline_ms(program_.problem),
                                   .most_runs = 20 * program_.problem.ops.size()};
      const auto steps = remat::walk(program_.problem, uses_, budget, rules);
      if (!steps) return std::nullopt;
      const PlanningProblem& p = r_.problem;
      const Decisions decisions{.order = order_of(program_, p.graph, *steps), .levels = levels_of(p)};
      return std::get<Plan>(make_plan(p.graph, p.costs, decisions, kNoBudget, p.layout));
    }

   private:
    Recompute r_;
    AbstractProgram program_;
    remat::Uses uses_;
  };
};

}  // namespace

const Policy& dtr_policy() {
  static const Dtr policy;
  return policy;
}

}  // namespace neap

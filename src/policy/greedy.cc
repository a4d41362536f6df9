// Tensor by tensor: the one that frees the most bytes above the budget for the least added time goes next.
#include "policy/search.h"

namespace neap {
namespace {

constexpr std::int64_t kWork = 400'000;

class Greedy final : public Policy {
 public:
  std::string_view name() const override { return "greedy"; }
  std::optional<PolicyRule> rule() const override {
    return PolicyRule{Means::kAgain, "drops the tensor of the most bytes for its time, one after another"};
  }

  // Towards ever smaller budgets, until nothing more is to be had.
  Plan smallest(const PlanningProblem& p) const override {
    const Recompute r(p);
    const std::vector<Layer> layers = find_layers(r);
    Search search(r, layers, kWork);
    Candidate best = search.judge(r.store_all, kNoBudget);
    for (std::int64_t step = best.footprint.bytes / 8; step > best.footprint.bytes / 100 && search.work_left() > 0;) {
      Candidate less = search.drop_until(best, best.footprint.bytes - step);
      if (less.footprint.bytes < best.footprint.bytes) {
        best = std::move(less);
      } else {
        step /= 2;
      }
    }
    return plan_of(r, best.retention);
  }

  std::optional<Plan> within(const PlanningProblem& p, std::int64_t budget) const override {
    constexpr int kAttempts = 3;
    const Recompute r(p);
    const std::vector<Layer> layers = find_layers(r);
    Search search(r, layers, kWork);
    std::int64_t goal = budget;
    for (int i = 0; i < kAttempts; ++i) {
      const Candidate found = search.drop_until({.retention = r.store_all, .footprint = {}}, goal);
      if (found.footprint.bytes > goal) break;
      Plan plan = plan_of(r, found.retention);
      if (plan.peak_bytes <= budget) return plan;
      goal -= plan.peak_bytes - budget;
    }
    Plan least = smallest(p);
    return least.peak_bytes <= budget ? std::optional(std::move(least)) : std::nullopt;
  }
};

}  // namespace

const Policy& greedy_policy() {
  static const Greedy policy;
  return policy;
}

}  // namespace neap

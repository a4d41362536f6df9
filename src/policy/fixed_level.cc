// Keeps everything, all of it in one level: what adaptive levels are compared with.
#include "policy/policy.h"
#include "policy/storable.h"

namespace neap {
namespace {

class FixedLevel final : public Policy {
 public:
  explicit FixedLevel(precision::Level level) : level_(level) {}

  std::string_view name() const override { return precision::name(level_); }
  std::optional<PolicyRule> rule() const override {
    return PolicyRule{Means::kRounding, "stores all that may be rounded in this level"};
  }
  Plan smallest(const PlanningProblem& p) const override {
    Decisions decisions = store_all(p.graph);
    decisions.levels = p.levels != nullptr ? *p.levels : fixed_levels(p.graph, level_);
    return std::get<Plan>(make_plan(p.graph, p.costs, decisions, kNoBudget, p.layout));
  }
  std::optional<Plan> within(const PlanningProblem& p, std::int64_t budget) const override {
    Plan plan = smallest(p);
    return plan.peak_bytes <= budget ? std::optional(std::move(plan)) : std::nullopt;
  }
  bool is_for_no_budget() const override { return true; }
  bool wants_times() const override { return false; }

 private:
  precision::Level level_;
};

}  // namespace

const Policy& bf16_policy() {
  static const FixedLevel policy(precision::Level::kBf16);
  return policy;
}

const Policy& int8_policy() {
  static const FixedLevel policy(precision::Level::kInt8);
  return policy;
}

const Policy& int4_policy() {
  static const FixedLevel policy(precision::Level::kInt4);
  return policy;
}

}  // namespace neap

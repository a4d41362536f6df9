#include "policy/joint.h"

#include <algorithm>

#include "plan/simulate.h"
#include "policy/fewer_bits.h"

namespace neap {
namespace {

// For all the budgets that are tried together; about a microsecond each.
constexpr OracleEffort kQuick = {.search = 240'000, .starts = 40'000};
constexpr OracleEffort kLong = {.search = 1'500'000, .starts = 200'000};
constexpr int kFewShares[] = {15, 30, 50, 75};
constexpr int kManyShares[] = {5, 10, 15, 20, 30, 40, 50, 60, 75, 90};

class Joint {
 public:
  Joint(const PlanningProblem& problem, std::int64_t budget, double best_ms, bool may_spill, const JointEffort& effort)
      : p_(problem),
        exact_(without_choice(problem)),
        budget_(budget),
        best_ms_(best_ms),
        may_spill_(may_spill),
        effort_(effort) {}

  std::optional<TimedPlan> run() {
    OracleSearch exact(exact_, effort_.each);
    try_bases(exact, exact.kept());
    if (has_choice_of_levels(p_)) {
      OracleSearch rounded(p_, effort_.each);
      try_bases(rounded, exact.kept());
      if (const std::optional<Candidate> found = rounded.fastest(budget_)) offer(rounded.recompute(), *found);
    }
    return std::move(best_);
  }

 private:
  void try_bases(OracleSearch& search, const Candidate& kept) {
    offer(search.recompute(), kept);
    const std::int64_t missing = std::max<std::int64_t>(0, kept.footprint.bytes - budget_);
    for (const int share : effort_.shares) {
      const std::optional<Candidate> found = search.fastest(budget_ + missing / 100 * share);
      if (found) offer(search.recompute(), *found);
    }
  }

  // What recomputes so, with the fewest bits rounded, or sent away, or both.
  void offer(const Recompute& r, const Candidate& base) {
    const Decisions decisions = decisions_of(r, base.retention);
    if (!has_choice_of_levels(p_) && base.footprint.ms >= best_ms_) return;  // transfers make it no faster
    if (may_spill_) take(SpillSearch(exact_, decisions).fastest(budget_));
    if (!has_choice_of_levels(p_)) return;
    if (std::optional<Plan> plan = LevelSearch(p_, decisions).fastest(budget_)) {
      const double ms = simulate(*plan, p_.costs, p_.link).ms;
      take(TimedPlan{std::move(*plan), ms});
    } else if (may_spill_) {
      take(SpillSearch(p_, decisions).fastest(budget_));
    }
  }

  void take(std::optional<TimedPlan> plan) {
    if (!plan || plan->ms >= best_ms_) return;
    best_ms_ = plan->ms;
    best_ = std::move(plan);
  }

  const PlanningProblem& p_;
  PlanningProblem exact_;
  std::int64_t budget_;
  double best_ms_;
  bool may_spill_;
  const JointEffort& effort_;
  std::optional<TimedPlan> best_;
};

Plan smaller(Plan a, Plan b) { return a.peak_bytes < b.peak_bytes ? std::move(a) : std::move(b); }

}  // namespace

const JointEffort kJointWhileRunning = {kQuick, kFewShares};
const JointEffort kJointThorough = {kLong, kManyShares};

std::optional<TimedPlan> joint_within(const PlanningProblem& problem, std::int64_t budget, double best_ms,
                                      bool may_spill, const JointEffort& effort) {
  return Joint(problem, budget, best_ms, may_spill, effort).run();
}

Plan joint_smallest(const PlanningProblem& problem, bool may_spill) {
  const PlanningProblem exact = without_choice(problem);
  // Exactly stored tensors may leave more often than rounded ones.
  Plan recomputes =
      has_choice_of_levels(problem) && may_spill ? joint_smallest(exact, true) : oracle_policy().smallest(exact);
  if (!may_spill && !has_choice_of_levels(problem)) return recomputes;
  OracleSearch search(problem, kQuick);
  const Recompute& r = search.recompute();
  const auto least = [&](const Candidate& base) {
    return may_spill ? SpillSearch(problem, decisions_of(r, base.retention)).smallest() : plan_of(r, base.retention);
  };
  return smaller(smaller(least(search.kept()), least(search.smallest())), std::move(recomputes));
}

}  // namespace neap

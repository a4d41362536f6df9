#include "policy/joint.h"

#include <algorithm>

namespace neap {
namespace {

// For all the budgets that are tried together; about a microsecond each.
constexpr OracleEffort kEffort = {.search = 240'000, .starts = 40'000};

// Of what lies between the budget and keeping everything, in percent: recomputation fits the tensors into the budget
// plus this much, and spilling makes up for it.
constexpr int kShares[] = {15, 30, 50, 75};

}  // namespace

std::optional<TimedPlan> joint_within(const PlanningProblem& problem, std::int64_t budget, double best_ms) {
  OracleSearch search(problem, kEffort);
  const Recompute& r = search.recompute();
  std::optional<TimedPlan> best;
  const auto offer = [&](const Candidate& base) {
    if (base.footprint.ms >= best_ms) return;  // transfers make it no faster
    std::optional<TimedPlan> plan = SpillSearch(problem, decisions_of(r, base.retention)).fastest(budget);
    if (!plan || plan->ms >= best_ms) return;
    best_ms = plan->ms;
    best = std::move(plan);
  };
  offer(search.kept());
  const std::int64_t missing = std::max<std::int64_t>(0, search.kept().footprint.bytes - budget);
  for (const int share : kShares) {
    const std::optional<Candidate> found = search.fastest(budget + missing / 100 * share);
    if (found) offer(*found);
  }
  return best;
}

Plan joint_smallest(const PlanningProblem& problem) {
  OracleSearch search(problem, kEffort);
  const Recompute& r = search.recompute();
  const auto all_out = [&](const Candidate& base) {
    return SpillSearch(problem, decisions_of(r, base.retention)).smallest();
  };
  Plan kept = all_out(search.kept());
  Plan again = all_out(search.smallest());
  return kept.peak_bytes < again.peak_bytes ? kept : again;
}

}  // namespace neap

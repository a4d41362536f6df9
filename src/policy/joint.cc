#include "policy/joint.h"

#include <algorithm>
#include <cmath>

#include "core/bytes.h"
#include "plan/simulate.h"
#include "policy/fewer_bits.h"
#include "policy/priced.h"

namespace neap {
namespace {

// For all the budgets that are tried together; about a microsecond each.
constexpr OracleEffort kQuick = {.search = 240'000, .starts = 40'000};
constexpr OracleEffort kLong = {.search = 1'500'000, .starts = 200'000};
constexpr std::int64_t kFlights[] = {16 * kMiB, 4 * kMiB, 0};  // for which the joint program leaves room
constexpr int kFewShares[] = {15, 30, 50, 75};
constexpr int kManyShares[] = {5, 10, 15, 20, 30, 40, 50, 60, 75, 90};

bool has_room_outside(const PlanningProblem& p) { return p.link.room_bytes != 0; }

class Joint {
 public:
  Joint(const PlanningProblem& problem, std::int64_t budget, double best_ms, bool may_spill, const JointEffort& effort)
      : p_(problem),
        exact_(without_choice(problem)),
        budget_(budget),
        best_ms_(best_ms),
        may_spill_(may_spill && has_room_outside(problem)),
        effort_(effort) {
    for (std::size_t i = 0; i < p_.costs.ms.size(); ++i) {
      if (p_.graph.nodes[i].phase == Phase::kUpdate) update_ms_ += p_.costs.ms[i];
    }
  }

  std::optional<TimedPlan> run() {
    OracleSearch exact(exact_, effort_.each);
    try_bases(exact, exact.kept());
    try_prices(exact, exact_);
    if (has_choice_of_levels(p_)) {
      OracleSearch rounded(p_, effort_.each);
      try_bases(rounded, exact.kept());
      try_prices(rounded, p_);
      if (const std::optional<Candidate> found = rounded.fastest(budget_)) offer(rounded.recompute(), *found);
    }
    if (!best_ && exact.smallest().footprint.bytes > budget_) try_least();
    return std::move(best_);
  }

 private:
  void try_bases(OracleSearch& search, const Candidate& kept) {
    offer(search.recompute(), kept);
    try_shares(search, kept, budget_);
  }

  // What recomputes so that `least` and a share of what is missing to keep everything suffice.
  void try_shares(OracleSearch& search, const Candidate& kept, std::int64_t least) {
    const std::int64_t missing = std::max<std::int64_t>(0, kept.footprint.bytes - least);
    for (const int share : effort_.shares) {
      const std::optional<Candidate> found = search.fastest(least + missing / 100 * share);
      if (found) offer(search.recompute(), *found);
    }
  }

  // Near the minimum, where even what recomputes the most has to send something away. With work of its own: the other
  // searches have used theirs up.
  void try_least() {
    OracleSearch search(exact_, effort_.each);
    const Candidate least = search.smallest();
    offer(search.recompute(), least);
    try_shares(search, search.kept(), least.footprint.bytes);
  }

  // What recomputes so, with the fewest bits rounded, or sent away, or both.
  void offer(const Recompute& r, const Candidate& base) {
    const Decisions decisions = decisions_of(r, base.retention);
    if (!has_choice_of_levels(p_) && base.footprint.ms >= best_ms_) return;  // transfers make it no faster
    if (may_spill_) take(SpillSearch(exact_, decisions).fastest(budget_));
    if (!has_choice_of_levels(p_)) return;
    if (std::optional<Plan> plan = LevelSearch(p_, decisions).fastest(budget_)) {
      take(timed(std::move(*plan)));
    } else if (may_spill_) {
      take(SpillSearch(p_, decisions).fastest(budget_));
    }
  }

  // The link is free at the price 0 and costs as much as if calls stood still at 1. Between them is one at which what
  // leaves keeps it busy for as long as the calls run; it may be far below 1, where computing again is cheap.
  void try_prices(const OracleSearch& search, const PlanningProblem& problem) {
    constexpr double kNearlyFree = 1e-3;
    if (!may_spill_ && !has_choice_of_levels(problem)) return;
    const PricedChain chain(search.recompute(), search.layers(), may_spill_);
    double low = kNearlyFree;
    double high = 1;
    for (int i = 0; i < effort_.prices; ++i) {
      const double price = i == 0 ? 0 : std::sqrt(low * high);
      const std::vector<PricedWay> ways = chain.ways(price);
      double busy = 0;
      for (const std::int64_t flight : kFlights) {
        const PricedWay* const way = fitting(search.recompute(), problem, ways, flight);
        if (way == nullptr) continue;
        offer(search.recompute(), problem, *way);
        busy = way->link_ms / way->ms;
      }
      if (busy <= 1 && i == 0) return;
      if (i > 0) (busy > 1 ? low : high) = price;
    }
  }

  // The most that fits, by live bytes; weights change early only where nothing else does. Null: nothing fits.
  const PricedWay* fitting(const Recompute& r, const PlanningProblem& problem, const std::vector<PricedWay>& ways,
                           std::int64_t flight) const {
    const auto fits = [&](const PricedWay& way, bool is_early) {
      Decisions decisions = decisions_of(r, way.retention);
      decisions.levels = chosen_levels(problem, way);
      decisions.early_updates = is_early;
      decisions = spill_first(std::move(decisions), p_.graph, way.leaving, way.leaving.size(), flight, p_.link);
      return footprint(p_.graph, r.views, p_.costs, decisions, budget_).bytes <= budget_;
    };
    for (const bool is_early : {false, true}) {  // ways go from the fewest bytes to the most, nearly
      const auto end = std::ranges::partition_point(ways, [&](const PricedWay& way) { return fits(way, is_early); });
      if (end != ways.begin()) return &*std::prev(end);
    }
    return nullptr;
  }

  static StoredLevels chosen_levels(const PlanningProblem& problem, const PricedWay& way) {
    StoredLevels out = levels_of(problem);
    if (!has_choice_of_levels(problem)) return out;
    out.of.assign(problem.graph.tensors.size(), precision::Level::kFp32);
    for (const TensorId id : way.rounded) out.of[id.index] = level_of(problem, id);
    return out;
  }

  void offer(const Recompute& r, const PlanningProblem& problem, const PricedWay& way) {
    if (way.ms + update_ms_ >= best_ms_) return;
    const StoredLevels levels = chosen_levels(problem, way);
    const PlanningProblem decided{p_.graph, p_.costs, p_.link, p_.layout, &levels};
    Decisions decisions = decisions_of(r, way.retention);
    if (may_spill_) return take(SpillSearch(decided, std::move(decisions), way.leaving).fastest(budget_));
    decisions.levels = levels;
    Plan plan = std::get<Plan>(make_plan(p_.graph, p_.costs, decisions, kNoBudget, p_.layout));
    if (plan.peak_bytes <= budget_) take(timed(std::move(plan)));
  }

  TimedPlan timed(Plan plan) const {
    const double ms = simulate(plan, p_.costs, p_.link).ms;
    return {std::move(plan), ms};
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
  double update_ms_ = 0;  // behind backward
  std::optional<TimedPlan> best_;
};

Plan smaller(Plan a, Plan b) { return a.peak_bytes < b.peak_bytes ? std::move(a) : std::move(b); }

}  // namespace

const JointEffort kJointWhileRunning = {kQuick, kFewShares, 5};
const JointEffort kJointThorough = {kLong, kManyShares, 9};

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
  Plan best = smaller(smaller(least(search.kept()), least(search.smallest())), std::move(recomputes));
  return may_spill ? smaller(std::move(best), spill_policy().smallest(problem)) : best;
}

}  // namespace neap

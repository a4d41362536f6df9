#include "policy/oracle.h"

#include <algorithm>

#include "policy/chain.h"
#include "remat/solve.h"

namespace neap {
namespace {

// About a microsecond each.
constexpr OracleEffort kForSpeed = {.search = 500'000, .starts = 80'000};
// The minimum is asked for before every run, and hardly gets smaller with more.
constexpr OracleEffort kForSize = {.search = 120'000, .starts = 40'000};

std::int64_t state_of(const Graph& graph) {
  std::int64_t out = 0;
  for (const Tensor& t : graph.tensors) out += is_state(t.role) ? t.type.bytes() : 0;
  return out;
}

}  // namespace

OracleSearch::OracleSearch(const PlanningProblem& problem, const OracleEffort& effort)
    : r_(problem),
      layers_(find_layers(r_)),
      search_(r_, layers_, effort.search),
      abstract_(abstract_of(r_)),
      uses_(abstract_.problem) {
  judge_starts(effort.starts);
}

// The best schedule known of the abstract problem, for the budget at which a walk met the real one.
void OracleSearch::solve_abstract(std::int64_t abstract_budget, std::int64_t budget, std::vector<Candidate>& out) {
  remat::Problem problem = abstract_.problem;
  problem.budget = abstract_budget;
  const remat::Answer answer = remat::solve(problem, {.is_fast = true, .wants_minimum = false});
  if (!answer.feasible) return;
  Candidate c = search_.judge(retention_of(r_, order_of(abstract_, r_.problem.graph, answer.schedule)), budget);
  if (c.footprint.bytes > budget) c = search_.drop_until(std::move(c), budget);
  if (c.footprint.bytes <= budget) out.push_back(std::move(c));
}

std::vector<Candidate> OracleSearch::walks(std::int64_t budget) {
  constexpr std::size_t kLarge = 3000;
  const remat::Problem& p = abstract_.problem;
  const bool is_large = p.ops.size() > kLarge;
  const int halvings = is_large ? 3 : 6;
  double total_ms = 0;
  for (const remat::Op& op : p.ops) total_ms += op.ms;
  std::vector<Candidate> out;
  for (const bool is_dtr : {true, false}) {
    if (is_large && !is_dtr) continue;
    const remat::WalkRules rules{.is_dtr = is_dtr, .most_ms = 4 * total_ms, .most_runs = 4 * p.ops.size()};
    std::int64_t low = 0;
    std::int64_t high = remat::replay(p, remat::eager_schedule(p)).peak_bytes;
    std::optional<Candidate> best;
    std::int64_t best_budget = 0;
    for (int i = 0; i < halvings; ++i) {
      const std::int64_t middle = low + (high - low) / 2;
      const auto steps = remat::walk(p, uses_, middle, rules);
      bool is_too_large = false;
      if (steps) {
        Candidate c = search_.judge(retention_of(r_, order_of(abstract_, r_.problem.graph, *steps)), budget);
        is_too_large = c.footprint.bytes > budget;
        if (!is_too_large && (!best || c.footprint.ms < best->footprint.ms)) {
          best = std::move(c);
          best_budget = middle;
        }
      }
      (is_too_large ? high : low) = middle;
    }
    if (!best) continue;
    out.push_back(std::move(*best));
    if (!is_large && is_dtr) solve_abstract(best_budget, budget, out);
  }
  return out;
}

void OracleSearch::judge_starts(std::int64_t work) {
  chain_ = LayerChain(r_, layers_).retentions();
  const auto steps = static_cast<std::int64_t>(r_.forward.size() + r_.backward.size());
  const auto most = static_cast<std::size_t>(std::clamp<std::int64_t>(work / steps, 8, 200));
  stride_ = std::max<std::size_t>(1, (chain_.size() + most - 1) / most);
  for (std::size_t i = 0; i < chain_.size(); i += stride_) starts_.push_back(search_.judge(chain_[i], kNoBudget));
  starts_.push_back(search_.judge(r_.store_all, kNoBudget));
}

void OracleSearch::judge_between(std::int64_t budget, std::vector<Candidate>& found) {
  std::size_t low = 0;
  for (std::size_t s = 0; s + 1 < starts_.size(); ++s) {
    if (starts_[s].footprint.bytes <= budget) low = s * stride_;
  }
  std::size_t high = std::min(low + stride_, chain_.size());
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    Candidate c = search_.judge(chain_[middle], budget);
    const bool fits = c.footprint.bytes <= budget;
    (fits ? low : high) = middle;
    if (fits) found.push_back(std::move(c));
  }
}

std::optional<Candidate> OracleSearch::fastest(std::int64_t budget) {
  constexpr std::size_t kTried = 3;
  std::vector<Candidate> found = walks(budget);
  judge_between(budget, found);
  std::vector<const Candidate*> larger;
  for (const Candidate& c : starts_) {
    if (c.footprint.bytes <= budget) {
      found.push_back(c);
    } else {
      larger.push_back(&c);
    }
  }
  std::stable_sort(larger.begin(), larger.end(),
                   [](const Candidate* a, const Candidate* b) { return a->footprint.bytes < b->footprint.bytes; });
  if (larger.size() > kTried) larger = {larger[0], larger[1], &starts_.back()};
  for (const Candidate* c : larger) {
    Candidate less = search_.drop_until(*c, budget);
    if (less.footprint.bytes <= budget) found.push_back(std::move(less));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Candidate& a, const Candidate& b) { return a.footprint.ms < b.footprint.ms; });
  if (found.size() > kTried) found.resize(kTried);
  std::optional<Candidate> best;
  const auto offer = [&](Candidate c) {
    if (c.footprint.bytes > budget) return;
    c = search_.keep_while(std::move(c), budget);
    if (!best || c.footprint.ms < best->footprint.ms) best = std::move(c);
  };
  for (Candidate& c : found) offer(std::move(c));
  if (!best) return best;
  // Take something out and fill up again, from the best so far.
  const std::int64_t range = best->footprint.bytes - state_of(r_.problem.graph);
  for (const int share : {2, 5, 10, 3, 7, 15}) {
    if (search_.work_left() <= 0) break;
    const std::int64_t less = best->footprint.bytes - range * share / 100;
    offer(search_.drop_until(*best, less));
  }
  return best;
}

// The least of the chain's ways, then as much less as dropping more can reach.
Candidate OracleSearch::smallest() {
  Candidate best = *std::min_element(starts_.begin(), starts_.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(a.footprint.bytes, a.footprint.ms) < std::pair(b.footprint.bytes, b.footprint.ms);
  });
  const std::int64_t state = state_of(r_.problem.graph);
  for (int share = 8; share >= 1 && search_.work_left() > 0;) {
    const std::int64_t goal = best.footprint.bytes - (best.footprint.bytes - state) * share / 100;
    Candidate less = search_.drop_until(best, goal);
    if (less.footprint.bytes < best.footprint.bytes) {
      best = std::move(less);
    } else {
      share /= 2;
    }
  }
  return best;
}

namespace {

// Times decide which plans are tried, and the fewest bytes need not be among those that times like: who looks for these
// tries calls that all take as long, too.
Costs with_even_times(Costs costs) {
  costs.ms.assign(costs.ms.size(), 1.0);
  return costs;
}

class Oracle final : public Policy {
 public:
  std::string_view name() const override { return "oracle"; }

  Plan smallest(const PlanningProblem& p) const override {
    Plan timed = smallest_by_times(p);
    const Costs even = with_even_times(p.costs);
    Plan other = smallest_by_times({p.graph, even, p.link, p.layout, p.levels});
    return other.peak_bytes < timed.peak_bytes ? std::move(other) : std::move(timed);
  }

  // Packing can need a little more than the most that is alive: then with as much less.
  std::optional<Plan> within(const PlanningProblem& p, std::int64_t budget) const override {
    constexpr int kAttempts = 4;
    OracleSearch search(p, kForSpeed);
    std::int64_t goal = budget;
    for (int i = 0; i < kAttempts; ++i) {
      const std::optional<Candidate> found = search.fastest(goal);
      if (!found) break;
      Plan plan = plan_of(search.recompute(), found->retention);
      if (plan.peak_bytes <= budget) return plan;
      goal -= plan.peak_bytes - budget;
    }
    Plan least = smallest(p);
    return least.peak_bytes <= budget ? std::optional(std::move(least)) : std::nullopt;
  }

 private:
  static Plan smallest_by_times(const PlanningProblem& p) {
    OracleSearch search(p, kForSize);
    return plan_of(search.recompute(), search.smallest().retention);
  }
};

}  // namespace

const Policy& oracle_policy() {
  static const Oracle policy;
  return policy;
}

}  // namespace neap

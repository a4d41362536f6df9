#include "policy/oracle.h"

#include <algorithm>

#include "policy/chain.h"

namespace neap {
namespace {

// About a microsecond each.
constexpr std::int64_t kWork = 600'000;
constexpr std::int64_t kStartsWork = 100'000;

std::int64_t state_of(const Graph& graph) {
  std::int64_t out = 0;
  for (const Tensor& t : graph.tensors) out += is_state(t.role) ? t.type.bytes() : 0;
  return out;
}

}  // namespace

OracleSearch::OracleSearch(const PlanningProblem& problem)
    : r_(problem),
      layers_(find_layers(r_)),
      search_(r_, layers_, kWork),
      abstract_(abstract_of(r_)),
      uses_(abstract_.problem) {
  judge_starts();
}

std::vector<Candidate> OracleSearch::walks(std::int64_t budget) {
  constexpr int kHalvings = 6;
  const remat::Problem& p = abstract_.problem;
  std::vector<double> until = {0};
  for (const remat::Op& op : p.ops) until.push_back(until.back() + op.ms);
  std::vector<Candidate> out;
  for (const bool is_dtr : {true, false}) {
    const remat::WalkRules rules{
        .is_dtr = is_dtr, .price_until = until.data(), .most_ms = 4 * until.back(), .most_runs = 4 * p.ops.size()};
    std::int64_t low = 0;
    std::int64_t high = remat::replay(p, remat::eager_schedule(p)).peak_bytes;
    std::optional<Candidate> best;
    for (int i = 0; i < kHalvings; ++i) {
      const std::int64_t middle = low + (high - low) / 2;
      const auto steps = remat::walk(p, uses_, middle, rules);
      bool is_too_large = false;
      if (steps) {
        Candidate c = search_.judge(retention_of(r_, order_of(abstract_, r_.problem.graph, *steps)), budget);
        is_too_large = c.footprint.bytes > budget;
        if (!is_too_large && (!best || c.footprint.ms < best->footprint.ms)) best = std::move(c);
      }
      (is_too_large ? high : low) = middle;
    }
    if (best) out.push_back(std::move(*best));
  }
  return out;
}

void OracleSearch::judge_starts() {
  std::vector<Retention> all = chain_retentions(r_, layers_);
  const auto steps = static_cast<std::int64_t>(r_.forward.size() + r_.backward.size());
  const auto most = static_cast<std::size_t>(std::clamp<std::int64_t>(kStartsWork / steps, 8, 200));
  const std::size_t step = (all.size() + most - 1) / most;
  for (std::size_t i = 0; i < all.size(); i += step) starts_.push_back(search_.judge(std::move(all[i]), kNoBudget));
  starts_.push_back(search_.judge(r_.store_all, kNoBudget));
}

std::optional<Candidate> OracleSearch::fastest(std::int64_t budget) {
  constexpr std::size_t kTried = 3;
  std::vector<Candidate> found = walks(budget);
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

class Oracle final : public Policy {
 public:
  std::string_view name() const override { return "oracle"; }

  Plan smallest(const PlanningProblem& p) const override {
    OracleSearch search(p);
    return plan_of(search.recompute(), search.smallest().retention);
  }

  // Packing can need a little more than the most that is alive: then with as much less.
  std::optional<Plan> within(const PlanningProblem& p, std::int64_t budget) const override {
    constexpr int kAttempts = 4;
    OracleSearch search(p);
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
};

}  // namespace

const Policy& oracle_policy() {
  static const Oracle policy;
  return policy;
}

}  // namespace neap

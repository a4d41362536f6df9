#include "remat/minimum.h"

#include "remat/improve.h"
#include "remat/segments.h"
#include "remat/sequence.h"

namespace neap::remat {
namespace {

constexpr double kMostTimes = 12;  // of the time of every op once, in walks that look for the minimum
constexpr std::size_t kMostRunsEach = 12;

}  // namespace

std::vector<double> even_prices(const Problem& problem) {
  std::vector<double> out(problem.ops.size() + 1);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(i);
  return out;
}

Smallest smallest_walk(const Problem& problem, const Uses& uses, WalkRules rules, double most_times,
                       std::int64_t at_least, Smallest start, const IsOver& is_over) {
  rules.most_ms = most_times * baseline_ms(problem) + 1;
  rules.most_runs = kMostRunsEach * problem.ops.size() + 100;
  std::int64_t low = at_least - 1;  // taken as impossible
  const std::int64_t precision = std::max<std::int64_t>(1, start.peak / 500);
  while (start.peak - low > precision && !is_over()) {
    const std::int64_t middle = low + (start.peak - low) / 2;
    const auto schedule = walk(problem, uses, middle, rules);
    if (!schedule) {
      low = middle;
      continue;
    }
    std::vector<OpIndex> runs = runs_of(*schedule);
    const std::int64_t peak = peak_of(problem, uses, runs);
    start = {peak, std::move(runs)};
  }
  return start;
}

Smallest smallest_known(const Problem& problem, const Uses& uses, std::int64_t at_least, const IsOver& is_over) {
  Smallest best;
  for (OpIndex i = 0; i < problem.ops.size(); ++i) best.runs.push_back(i);
  best.peak = peak_of(problem, uses, best.runs);
  const std::vector<double> prices = even_prices(problem);
  for (const double wait : {1.0, 0.5}) {
    for (const double used : {1.0, 0.2}) {
      const WalkRules rules{.wait_power = wait, .used_ancestors = used, .price_until = prices.data()};
      best = smallest_walk(problem, uses, rules, kMostTimes, at_least, std::move(best), is_over);
    }
  }
  best = smallest_walk(problem, uses, {.is_dtr = true}, kMostTimes, at_least, std::move(best), is_over);
  // Then one eviction after the other at the highest place.
  while (!is_over() && best.peak > at_least) {
    const std::int64_t goal = std::max(at_least, best.peak - std::max<std::int64_t>(1, best.peak / 200));
    const ImproveOptions options{.budget = goal, .work = 20'000'000, .is_over = is_over};
    std::vector<OpIndex> runs = evict_until_it_fits(problem, uses, best.runs, options);
    const std::int64_t peak = peak_of(problem, uses, runs);
    if (peak >= best.peak) break;
    best = {peak, std::move(runs)};
  }
  return best;
}

}  // namespace neap::remat

#include "remat/minimum.h"

#include "remat/improve.h"
#include "remat/segments.h"
#include "remat/sequence.h"

namespace neap::remat {
namespace {

constexpr double kMostTimes = 12;  // of the time of every op once, in walks that look for the minimum
constexpr std::size_t kMostRunsEach = 12;
constexpr std::int64_t kShrinkWork = 3'000'000;
constexpr int kMostShrinks = 40;

}  // namespace

Smallest smallest_walk(const Problem& problem, const Uses& uses, WalkRules rules, double most_times,
                       std::int64_t at_least, Smallest start, const IsOver& is_over) {
  rules.most_ms = most_times * baseline_ms(problem) + 1;
  rules.is_over = &is_over;
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
  best = smallest_walk(problem, uses, {.is_dtr = true}, kDtrMostTimes, at_least, std::move(best), is_over);
  for (std::vector<OpIndex> runs :
       {greedy_runs(problem, uses, 0), segment_runs(problem, uses, 1), segment_runs(problem, uses, 0)}) {
    const std::int64_t peak = peak_of(problem, uses, runs);
    if (peak < best.peak) best = {peak, std::move(runs)};
  }
  for (const double used : {1.0, 0.2}) {
    best = smallest_walk(problem, uses, {.is_wait_rooted = used < 1, .used_ancestors = used}, kMostTimes, at_least,
                         std::move(best), is_over);
  }
  // Then one eviction after the other at the highest place.
  for (int round = 0; round < kMostShrinks && !is_over() && best.peak > at_least; ++round) {
    const std::int64_t goal = std::max(at_least, best.peak - std::max<std::int64_t>(1, best.peak / 200));
    const ImproveOptions options{.budget = goal, .work = kShrinkWork, .is_over = is_over};
    std::vector<OpIndex> runs = evict_until_it_fits(problem, uses, best.runs, options);
    const std::int64_t peak = peak_of(problem, uses, runs);
    if (peak >= best.peak) break;
    best = {peak, std::move(runs)};
  }
  return best;
}

}  // namespace neap::remat

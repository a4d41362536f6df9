#include "remat/solve.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "neap/error.h"
#include "remat/bound.h"
#include "remat/exact.h"
#include "remat/improve.h"
#include "remat/oracle.h"
#include "remat/segments.h"
#include "remat/sequence.h"

namespace neap::remat {
namespace {

constexpr double kSame = 1e-9;  // of sums of times in different order
constexpr int kPrices = 14;     // of cuts
constexpr std::int64_t kBoundWork = 100'000'000;
constexpr std::int64_t kFastBoundWork = 1'000'000;

class Solver {
 public:
  Solver(const Problem& problem, const SolveOptions& options)
      : p_(problem), options_(options), uses_(problem), all_(problem.ops.size()) {
    std::iota(all_.begin(), all_.end(), 0U);
  }

  Answer run() {
    bound_ = lower_bound(p_, uses_, p_.budget, options_.is_fast ? kFastBoundWork : kBoundWork,
                         is_oracle() && !options_.is_fast ? kPrices : 0);
    const std::int64_t eager_peak = peak_of(p_, uses_, all_);
    std::vector<OpIndex> runs = all_;
    if (eager_peak > p_.budget) runs = runs_within_budget();
    const bool fits = peak_of(p_, uses_, runs) <= p_.budget;
    if (!fits || options_.wants_minimum) find_smallest();
    if (!fits && is_oracle() && smallest_.peak <= p_.budget) runs = improved(smallest_.runs);
    if (peak_of(p_, uses_, runs) > p_.budget) runs = smallest_.runs;
    return answer(runs);
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool is_oracle() const { return options_.method == Method::kOracle; }
  bool is_over(double share) const {
    return std::chrono::duration<double>(Clock::now() - start_).count() > share * options_.seconds;
  }
  IsOver over(double share) const {
    return [this, share] { return is_over(share); };
  }

  std::vector<OpIndex> dtr_runs() const {
    const auto schedule = walk(p_, uses_, p_.budget,
                               {.is_dtr = true,
                                .most_ms = kDtrMostTimes * bound_.ms + 1,
                                .most_runs = static_cast<std::size_t>(kDtrMostTimes) * p_.ops.size() + 100});
    return schedule ? runs_of(*schedule) : all_;
  }

  std::vector<OpIndex> runs_within_budget() {
    switch (options_.method) {
      case Method::kStoreAll: return all_;
      case Method::kDtr: return dtr_runs();
      case Method::kGreedy: return greedy_runs(p_, uses_, p_.budget);
      case Method::kEveryLayer: return segment_runs(p_, uses_, 1);
      case Method::kSqrt: return segment_runs(p_, uses_, 0);
      case Method::kOracle: break;
    }
    if (bound_.bytes > p_.budget) return all_;
    if (auto exact = exact_runs(p_)) {
      is_exact_ = exact->is_optimal;
      return std::move(exact->runs);
    }
    auto runs = oracle_runs(
        p_, uses_,
        {.budget = p_.budget, .bound_ms = bound_.ms * (1 + kSame), .is_fast = options_.is_fast, .is_over = over(0.7)});
    return runs ? std::move(*runs) : all_;
  }

  std::vector<OpIndex> improved(std::vector<OpIndex> runs) const {
    const std::int64_t work = options_.is_fast ? 3'000'000 : 300'000'000;
    return improve(p_, uses_, std::move(runs), {.budget = p_.budget, .work = work, .is_over = over(1)});
  }

  void find_smallest() {
    const auto consider = [&](std::vector<OpIndex> runs) {
      const std::int64_t peak = peak_of(p_, uses_, runs);
      if (peak < smallest_.peak) smallest_ = {peak, std::move(runs)};
    };
    consider(all_);
    switch (options_.method) {
      case Method::kStoreAll: return;
      case Method::kDtr:
        smallest_ = smallest_walk(p_, uses_, {.is_dtr = true}, kDtrMostTimes, bound_.bytes, smallest_, over(1));
        return;
      case Method::kGreedy: return consider(greedy_runs(p_, uses_, 0));
      case Method::kEveryLayer: return consider(segment_runs(p_, uses_, 1));
      case Method::kSqrt: return consider(segment_runs(p_, uses_, 0));
      case Method::kOracle: smallest_ = smallest_known(p_, uses_, bound_.bytes, over(1)); return;
    }
  }

  Answer answer(const std::vector<OpIndex>& runs) const {
    Answer out{.baseline_ms = baseline_ms(p_), .schedule = with_frees(p_, runs)};
    const Replay replayed = replay(p_, out.schedule);
    if (!replayed.error.empty()) throw InternalError("rematerialisation: " + replayed.error);
    out.peak_bytes = replayed.peak_bytes;
    out.total_ms = replayed.total_ms;
    out.feasible = replayed.peak_bytes <= p_.budget;
    out.min_budget_bytes = std::min(smallest_.peak, replayed.peak_bytes);
    if (!out.feasible) return out;
    const bool is_proven = is_exact_ || out.total_ms <= bound_.ms * (1 + kSame);
    out.optimal = is_proven;
    out.gap = is_proven ? 0 : out.total_ms / bound_.ms - 1;
    return out;
  }

  const Problem& p_;
  const SolveOptions& options_;
  Uses uses_;
  std::vector<OpIndex> all_;
  Bound bound_;
  Smallest smallest_;
  bool is_exact_ = false;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

std::optional<Method> method_named(std::string_view name) {
  constexpr std::pair<std::string_view, Method> kMethods[] = {
      {"oracle", Method::kOracle}, {"adaptive", Method::kOracle},    {"greedy", Method::kGreedy},
      {"dtr", Method::kDtr},       {"store-all", Method::kStoreAll}, {"every-layer", Method::kEveryLayer},
      {"sqrt", Method::kSqrt}};
  for (const auto& [known, method] : kMethods) {
    if (known == name) return method;
  }
  return std::nullopt;
}

Answer solve(const Problem& problem, const SolveOptions& options) { return Solver(problem, options).run(); }

}  // namespace neap::remat

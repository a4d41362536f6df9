#include "remat/oracle.h"

#include <algorithm>

#include "remat/improve.h"
#include "remat/segments.h"
#include "remat/sequence.h"

namespace neap::remat {
namespace {

constexpr double kMostTimes = 12;        // a walk that takes longer, in times of every op once, is no start
constexpr double kCloseEnough = 1.0005;  // to the proven bound: the search ends

struct Start {
  double ms = 0;
  std::vector<OpIndex> runs;
};

double ms_of(const Problem& p, const std::vector<OpIndex>& runs) {
  double sum = 0;
  for (const OpIndex op : runs) sum += p.ops[op].ms;
  return sum;
}

class Oracle {
 public:
  Oracle(const Problem& problem, const Uses& uses, const OracleOptions& options)
      : p_(problem), uses_(uses), options_(options), baseline_(baseline_ms(problem)) {}

  std::optional<std::vector<OpIndex>> run() {
    find_starts();
    if (starts_.empty()) return std::nullopt;
    polish();
    return std::move(starts_.front().runs);
  }

 private:
  void offer(std::vector<OpIndex> runs) {
    if (peak_of(p_, uses_, runs) > options_.budget) return;
    const double ms = ms_of(p_, runs);
    starts_.push_back({ms, std::move(runs)});
  }

  void walk_by(WalkRules rules) {
    double best = 1e300;
    for (const Start& s : starts_) best = std::min(best, s.ms);
    // A slow start may end up best, but not one that thrashes.
    const double most_times = rules.is_dtr ? kDtrMostTimes : kMostTimes;
    rules.most_ms = std::min(best * 2, baseline_ * most_times + 1);
    rules.is_over = &options_.is_over;
    rules.most_runs = static_cast<std::size_t>(most_times) * p_.ops.size() + 100;
    if (const auto schedule = walk(p_, uses_, options_.budget, rules)) offer(runs_of(*schedule));
  }

  // What the bound's cut drops is made again when backward first reads it.
  void offer_cut(std::int64_t work) {
    if (options_.bound == nullptr || options_.bound->is_resident.empty()) return;
    std::vector<bool> is_dropped = options_.bound->is_resident;
    is_dropped.flip();
    std::vector<OpIndex> runs = runs_with_drops(p_, options_.bound->turn, is_dropped);
    offer(evict_until_it_fits(p_, uses_, std::move(runs),
                              {.budget = options_.budget, .work = work, .is_over = options_.is_over}));
  }

  void find_starts() {
    walk_by({.is_dtr = true});
    std::vector<OpIndex> all(p_.ops.size());
    for (OpIndex i = 0; i < all.size(); ++i) all[i] = i;
    const std::int64_t work = 2000 * static_cast<std::int64_t>(p_.tensors.size()) + 100'000;
    offer(evict_until_it_fits(p_, uses_, all, {.budget = options_.budget, .work = work, .is_over = options_.is_over}));
    offer_cut(work);
    offer(greedy_runs(p_, uses_, options_.budget));
    offer(segment_runs(p_, uses_, 1));
    offer(segment_runs(p_, uses_, 0));
    for (const bool is_wait_rooted : {false, true}) {
      for (const double used : {1.0, 0.2, 0.0}) {
        if (options_.is_over() || (options_.is_fast && !starts_.empty())) break;
        walk_by({.is_wait_rooted = is_wait_rooted, .used_ancestors = used});
      }
    }
    sort();
  }

  void sort() {
    std::stable_sort(starts_.begin(), starts_.end(), [](const Start& a, const Start& b) { return a.ms < b.ms; });
  }

  // Races: everyone gets a short search, the better half a longer one, and so on.
  void polish() {
    const auto size = static_cast<std::int64_t>(p_.tensors.size());
    const std::int64_t work =
        (options_.is_fast ? 2'000'000 : 150'000'000 + 10'000 * size) / (is_chain(p_, uses_) ? 4 : 1);
    std::int64_t each = options_.is_fast ? work : work / 16;
    if (options_.is_fast) starts_.resize(1);
    for (std::uint64_t seed = 1;; ++seed) {
      for (Start& s : starts_) {
        if (options_.is_over() || s.ms <= options_.bound_ms * kCloseEnough) break;
        s.runs = improve(p_, uses_, std::move(s.runs),
                         {.budget = options_.budget, .work = each, .seed = seed, .is_over = options_.is_over});
        s.ms = ms_of(p_, s.runs);
      }
      sort();
      if (starts_.size() == 1) return;
      starts_.resize((starts_.size() + 1) / 2);
      each *= 2;
    }
  }

  const Problem& p_;
  const Uses& uses_;
  const OracleOptions& options_;
  double baseline_;
  std::vector<Start> starts_;
};

}  // namespace

std::optional<std::vector<OpIndex>> oracle_runs(const Problem& problem, const Uses& uses,
                                                const OracleOptions& options) {
  return Oracle(problem, uses, options).run();
}

}  // namespace neap::remat

#include "plan/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/bytes.h"
#include "neap/error.h"
#include "plan/pack_bars.h"
#include "plan/pack_greedy.h"
#include "plan/pack_part.h"

namespace neap {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 62;  // sums of two cannot overflow

void check(const PackProblem& p) {
  if (p.alignment < 1) throw UserError("packing: the alignment must be positive");
  if (p.capacity < 0) throw UserError("packing: the capacity must not be negative");
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < p.items.size(); ++i) {
    const PackItem& item = p.items[i];
    const auto refuse = [&](const char* what) { throw UserError(fmt::format("packing: item {} {}", i, what)); };
    if (item.lower >= item.upper) refuse("ends before it starts");
    if (item.lower < -kMost || item.upper > kMost) refuse("lives beyond 2^62 ticks");
    if (item.size < 0) refuse("has a negative size");
    if (item.size > kMost - p.alignment || (sum += align_up(item.size, p.alignment)) > kMost) {
      refuse("makes the sizes add up to more than 2^62");
    }
  }
}

struct Fullest {
  std::int64_t tick = 0;
  std::int64_t bytes = 0;
};

Fullest fullest(std::span<const PackItem> items, std::int64_t alignment) {
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;
  changes.reserve(2 * items.size());
  for (const PackItem& i : items) {
    changes.emplace_back(i.lower, align_up(i.size, alignment));
    changes.emplace_back(i.upper, -align_up(i.size, alignment));
  }
  std::sort(changes.begin(), changes.end());  // at equal ticks what ends comes first
  Fullest most;
  std::int64_t live = 0;
  for (const auto& [tick, change] : changes) {
    live += change;
    if (live > most.bytes) most = {tick, live};
  }
  return most;
}

// In the largest unit that divides all aligned sizes; items of size 0 take no part. Offsets of a packing in which no
// item can be moved down are sums of sizes, so nothing is lost.
struct Scaled {
  std::int64_t unit = 0;  // bytes
  std::vector<PackItem> items;
  std::vector<std::size_t> index;  // into the problem's items
};

Scaled scale(const PackProblem& p) {
  Scaled out;
  for (const PackItem& i : p.items) out.unit = std::gcd(out.unit, align_up(i.size, p.alignment));
  out.unit = std::max<std::int64_t>(out.unit, 1);
  for (std::size_t i = 0; i < p.items.size(); ++i) {
    if (p.items[i].size == 0) continue;
    PackItem item = p.items[i];
    item.size = align_up(item.size, p.alignment) / out.unit;
    out.items.push_back(item);
    out.index.push_back(i);
  }
  return out;
}

std::string why_not(const Packing& p, const Fullest& most, std::int64_t capacity, bool is_impossible) {
  if (most.bytes > capacity) {
    return fmt::format("{} bytes are alive at {}, {} more than the capacity of {}", most.bytes, most.tick,
                       most.bytes - capacity, capacity);
  }
  if (is_impossible) {
    return fmt::format(
        "no packing within the capacity of {} exists, as an exhaustive search shows; best height found {}", capacity,
        p.height);
  }
  return fmt::format("search limit reached; best height found {}, capacity {}", p.height, capacity);
}

}  // namespace

std::int64_t max_live(std::span<const PackItem> items) { return fullest(items, 1).bytes; }

Packing pack(const PackProblem& problem, const PackLimits& limits) {
  check(problem);
  const Fullest most = fullest(problem.items, problem.alignment);
  Packing out{.lower_bound = most.bytes};
  out.offsets.assign(problem.items.size(), 0);
  const Scaled scaled = scale(problem);
  const PartGoals goals{.bound = most.bytes / scaled.unit, .limit = problem.capacity / scaled.unit};
  const PartsPacking packed = pack_parts(to_bars(scaled.items), goals, limits);
  for (std::size_t k = 0; k < scaled.items.size(); ++k) {
    const std::size_t i = scaled.index[k];
    out.offsets[i] = packed.offsets[k] * scaled.unit;
    out.height = std::max(out.height, out.offsets[i] + problem.items[i].size);
  }
  out.fits = out.height <= problem.capacity;
  if (!out.fits) out.reason = why_not(out, most, problem.capacity, packed.is_impossible);
  return out;
}

Packing pack_first_fit(const PackProblem& problem) {
  check(problem);
  Packing out{.lower_bound = fullest(problem.items, problem.alignment).bytes};
  out.offsets.assign(problem.items.size(), 0);
  const Scaled scaled = scale(problem);
  std::vector<std::uint32_t> order(scaled.items.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return scaled.items[a].lower < scaled.items[b].lower; });
  Meter meter(std::numeric_limits<std::int64_t>::max(), {});
  const Heights placed = fit_in_order(to_bars(scaled.items), order, Fit::kFirst, meter);
  for (std::size_t k = 0; k < scaled.items.size(); ++k) {
    const std::size_t i = scaled.index[k];
    out.offsets[i] = placed.offsets[k] * scaled.unit;
    out.height = std::max(out.height, out.offsets[i] + problem.items[i].size);
  }
  out.fits = out.height <= problem.capacity;
  if (!out.fits) out.reason = fmt::format("first fit reaches {}, the capacity is {}", out.height, problem.capacity);
  return out;
}

}  // namespace neap

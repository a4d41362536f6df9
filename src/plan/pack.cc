#include "plan/pack.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace neap {
namespace {

bool overlap_in_time(const PackItem& a, const PackItem& b) { return a.lower < b.upper && b.lower < a.upper; }

Packing place_in_order(std::span<const PackItem> items, const std::vector<std::uint32_t>& order) {
  Packing out;
  out.offsets.assign(items.size(), 0);
  std::vector<std::uint32_t> by_offset;  // placed so far, lowest first
  for (const std::uint32_t i : order) {
    std::int64_t at = 0;
    for (const std::uint32_t j : by_offset) {
      if (!overlap_in_time(items[i], items[j])) continue;
      if (out.offsets[j] - at >= items[i].size) break;
      at = std::max(at, out.offsets[j] + items[j].size);
    }
    out.offsets[i] = at;
    out.height = std::max(out.height, at + items[i].size);
    const auto spot = std::upper_bound(by_offset.begin(), by_offset.end(), at,
                                       [&](std::int64_t v, std::uint32_t j) { return v < out.offsets[j]; });
    by_offset.insert(spot, i);
  }
  return out;
}

}  // namespace

std::int64_t max_live(std::span<const PackItem> items) {
  std::map<std::uint32_t, std::int64_t> change;
  for (const PackItem& i : items) {
    change[i.lower] += i.size;
    change[i.upper] -= i.size;
  }
  std::int64_t live = 0;
  std::int64_t most = 0;
  for (const auto& [tick, delta] : change) most = std::max(most, live += delta);
  return most;
}

Packing pack(std::span<const PackItem> items) {
  const auto life = [&](std::uint32_t i) { return static_cast<std::int64_t>(items[i].upper - items[i].lower); };
  const auto keys = {
      +[](const PackItem& i) { return static_cast<double>(i.size); },
      +[](const PackItem& i) { return static_cast<double>(i.size) * (i.upper - i.lower); },
      +[](const PackItem& i) { return static_cast<double>(i.upper - i.lower); },
  };
  const std::int64_t bound = max_live(items);
  Packing best;
  best.height = INT64_MAX;
  for (const auto& key : keys) {
    std::vector<std::uint32_t> order(items.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      const double x = key(items[a]);
      const double y = key(items[b]);
      return x != y ? x > y : life(a) > life(b);
    });
    Packing next = place_in_order(items, order);
    if (next.height < best.height) best = std::move(next);
    if (best.height == bound) break;
  }
  if (items.empty()) best.height = 0;
  return best;
}

}  // namespace neap

#include "plan/pack_bars.h"

#include <algorithm>
#include <numeric>

namespace neap {
namespace {

// The last start before each end: sorted, distinct. What is alive there is a maximal set, for something starts there
// and something of it ends before the next start.
std::vector<std::int64_t> section_times(std::span<const PackItem> items) {
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> ends;
  for (const PackItem& i : items) {
    starts.push_back(i.lower);
    ends.push_back(i.upper);
  }
  std::sort(starts.begin(), starts.end());
  std::sort(ends.begin(), ends.end());
  std::vector<std::int64_t> times;
  for (const std::int64_t end : ends) {
    const std::int64_t start = *(std::lower_bound(starts.begin(), starts.end(), end) - 1);
    if (times.empty() || times.back() != start) times.push_back(start);
  }
  return times;
}

}  // namespace

std::int64_t Bars::cells() const {
  std::int64_t sum = 0;
  for (const Bar& b : bars) sum += b.last - b.first;
  return sum;
}

Bars to_bars(std::span<const PackItem> items) {
  const std::vector<std::int64_t> times = section_times(items);
  const auto section_at = [&](std::int64_t tick) {
    return static_cast<std::uint32_t>(std::lower_bound(times.begin(), times.end(), tick) - times.begin());
  };
  Bars out{.sections = static_cast<std::uint32_t>(times.size())};
  out.bars.reserve(items.size());
  for (const PackItem& i : items) {
    out.bars.push_back(
        {.first = section_at(i.lower), .last = section_at(i.upper), .size = i.size, .life = i.upper - i.lower});
  }
  return out;
}

std::int64_t max_live(const Bars& bars) {
  std::vector<std::int64_t> change(bars.sections + 1);
  for (const Bar& b : bars.bars) {
    change[b.first] += b.size;
    change[b.last] -= b.size;
  }
  std::int64_t live = 0;
  std::int64_t most = 0;
  for (const std::int64_t c : change) most = std::max(most, live += c);
  return most;
}

std::vector<Group> independent_groups(const Bars& bars) {
  Group order(bars.bars.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return bars.bars[a].first < bars.bars[b].first; });
  std::vector<Group> groups;
  std::uint32_t reach = 0;
  for (const std::uint32_t i : order) {
    if (groups.empty() || bars.bars[i].first >= reach) groups.emplace_back();
    groups.back().push_back(i);
    reach = std::max(reach, bars.bars[i].last);
  }
  return groups;
}

Bars select(const Bars& bars, const Group& group) {
  std::vector<PackItem> items;
  items.reserve(group.size());
  for (const std::uint32_t i : group) {
    items.push_back({.lower = bars.bars[i].first, .upper = bars.bars[i].last, .size = bars.bars[i].size});
  }
  Bars out = to_bars(items);
  for (std::size_t k = 0; k < group.size(); ++k) out.bars[k].life = bars.bars[group[k]].life;
  return out;
}

bool Meter::spend(std::int64_t steps) {
  left_ -= steps;
  if (parent_ != nullptr && !parent_->spend(steps)) left_ = 0;
  since_look_ += steps;
  if (is_over_ && since_look_ >= kBetweenLooks) {
    since_look_ = 0;
    if (is_over_()) left_ = 0;
  }
  return left_ > 0;
}

}  // namespace neap

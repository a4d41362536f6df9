#include "plan/pack_greedy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "core/random.h"

namespace neap {
namespace {

constexpr std::int64_t kSky = std::numeric_limits<std::int64_t>::max();

// A straight line between powers of two: the same bits on every machine, which std::log2 does not promise.
double rough_log2(std::int64_t x) {
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(x), &exponent);
  return exponent + 2 * mantissa;
}

// The tops of what is placed, as segments of equal height over the sections, and the bars that are left.
class Skyline {
 public:
  Skyline(const Bars& bars, const SkylineTaste& taste, Meter& meter) : bars_(bars), taste_(taste), meter_(meter) {
    out_.offsets.assign(bars.bars.size(), 0);
    RandomStream random(taste.seed);
    left_.resize(bars.sections);
    unplaced_.resize(bars.sections + 1);
    for (std::uint32_t i = 0; i < bars.bars.size(); ++i) {
      const Bar& b = bars.bars[i];
      worth_.push_back(taste.life * rough_log2(b.life) + taste.size * rough_log2(b.size) +
                       (taste.noise > 0 ? taste.noise * random.uniform() : 0));
      left_[b.first].push_back(i);
      unplaced_[b.first] += b.size;
      unplaced_[b.last] -= b.size;
    }
    for (auto& starting_here : left_) {
      std::stable_sort(starting_here.begin(), starting_here.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return bars.bars[a].last < bars.bars[b].last; });
    }
    std::partial_sum(unplaced_.begin(), unplaced_.end(), unplaced_.begin());
    bound_ = static_cast<double>(*std::max_element(unplaced_.begin(), unplaced_.end()));
    add(0, bars.sections, 0);
  }

  Heights run() {
    for (std::size_t todo = bars_.bars.size(); todo > 0;) {
      const auto gap = segments_.find(by_height_.begin()->second);
      if (const std::uint32_t bar = take_best(gap->first, gap->second); bar != kNone) {
        place(gap, bar);
        --todo;
      } else {
        raise(gap);
      }
    }
    return std::move(out_);
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::int64_t kOverhead = 400;  // of the maps, in steps a gap
  struct Segment {
    std::uint32_t last = 0;
    std::int64_t height = 0;
  };
  using Segments = std::map<std::uint32_t, Segment>;  // by first section

  void add(std::uint32_t first, std::uint32_t last, std::int64_t height) {
    if (first >= last) return;
    segments_[first] = {last, height};
    by_height_.emplace(height, first);
  }

  Segments::iterator remove(Segments::iterator s) {
    by_height_.erase({s->second.height, s->first});
    return segments_.erase(s);
  }

  std::int64_t left_wall(Segments::const_iterator s) const {
    return s == segments_.begin() ? kSky : std::prev(s)->second.height;
  }
  std::int64_t right_wall(Segments::const_iterator s) const {
    return std::next(s) == segments_.end() ? kSky : std::next(s)->second.height;
  }

  std::uint32_t take_best(std::uint32_t first, Segment gap) {
    const auto s = segments_.find(first);
    const std::int64_t left = left_wall(s);
    const std::int64_t right = right_wall(s);
    std::uint32_t best = kNone;
    double most = 0;
    std::int64_t looked = kOverhead + gap.last - first;
    for (std::uint32_t k = first; k < gap.last; ++k) {
      std::int64_t fullest = 0;  // of the sections [k, seen)
      std::uint32_t seen = k;
      for (const std::uint32_t i : left_[k]) {
        const Bar& b = bars_.bars[i];
        if (b.last > gap.last) break;
        ++looked;
        double worth = worth_[i];
        if (k == first) worth += taste_.beside_wall + (gap.height + b.size == left ? taste_.level : 0);
        if (b.last == gap.last) worth += taste_.beside_wall + (gap.height + b.size == right ? taste_.level : 0);
        if (taste_.pressure > 0) {
          looked += b.last - seen;
          for (; seen < b.last; ++seen) fullest = std::max(fullest, unplaced_[seen]);
          worth += taste_.pressure * (static_cast<double>(gap.height + fullest) / bound_);
        }
        if (best == kNone || worth > most) {
          most = worth;
          best = i;
        }
      }
    }
    meter_.spend(looked);
    if (best != kNone) std::erase(left_[bars_.bars[best].first], best);
    return best;
  }

  void place(Segments::iterator gap, std::uint32_t i) {
    const Bar& b = bars_.bars[i];
    const auto [last, height] = gap->second;
    const std::uint32_t first = gap->first;
    out_.offsets[i] = height;
    out_.height = std::max(out_.height, height + b.size);
    for (std::uint32_t k = b.first; taste_.pressure > 0 && k < b.last; ++k) unplaced_[k] -= b.size;
    remove(gap);
    add(first, b.first, height);
    add(b.first, b.last, height + b.size);
    add(b.last, last, height);
    merge_around(b.first);
  }

  void merge_around(std::uint32_t first) {
    const auto s = segments_.find(first);
    std::uint32_t from = first;
    std::uint32_t to = s->second.last;
    const std::int64_t height = s->second.height;
    if (left_wall(s) == height) from = std::prev(s)->first;
    if (right_wall(s) == height) to = std::next(s)->second.last;
    if (from == first && to == s->second.last) return;
    for (auto i = segments_.find(from); i != segments_.end() && i->first < to;) i = remove(i);
    add(from, to, height);
  }

  void raise(Segments::iterator gap) {
    const std::uint32_t first = gap->first;
    const std::uint32_t last = gap->second.last;
    const std::int64_t height = std::min(left_wall(gap), right_wall(gap));
    remove(gap);
    add(first, last, height);
    merge_around(first);
  }

  const Bars& bars_;
  const SkylineTaste& taste_;
  Meter& meter_;
  Heights out_;
  std::vector<double> worth_;
  std::vector<std::int64_t> unplaced_;  // bytes a section
  double bound_ = 0;
  std::vector<std::vector<std::uint32_t>> left_;  // per section: the unplaced bars that start in it, by their end
  Segments segments_;
  std::set<std::pair<std::int64_t, std::uint32_t>> by_height_;
};

struct Placed {
  std::uint32_t first;
  std::uint32_t last;
  std::int64_t bottom;
  std::int64_t top;
};

// `placed` has the lowest bottom first.
std::int64_t find_offset(const Bar& b, const std::vector<Placed>& placed, Fit fit) {
  std::int64_t at = 0;
  std::int64_t best = -1;
  std::int64_t smallest = kSky;
  for (const Placed& p : placed) {
    if (p.first >= b.last || b.first >= p.last) continue;
    const std::int64_t gap = p.bottom - at;
    if (gap >= b.size && gap < smallest) {
      if (fit == Fit::kFirst) return at;
      smallest = gap;
      best = at;
    }
    at = std::max(at, p.top);
  }
  return best >= 0 ? best : at;
}

}  // namespace

Heights fit_in_order(const Bars& bars, const std::vector<std::uint32_t>& order, Fit fit, Meter& meter) {
  Heights out;
  out.offsets.assign(bars.bars.size(), 0);
  std::vector<Placed> placed;
  placed.reserve(order.size());
  for (const std::uint32_t i : order) {
    const Bar& b = bars.bars[i];
    const std::int64_t at = find_offset(b, placed, fit);
    out.offsets[i] = at;
    out.height = std::max(out.height, at + b.size);
    const auto spot = std::upper_bound(placed.begin(), placed.end(), at,
                                       [](std::int64_t v, const Placed& p) { return v < p.bottom; });
    placed.insert(spot, {b.first, b.last, at, at + b.size});
    meter.spend(static_cast<std::int64_t>(placed.size()));
  }
  return out;
}

Heights fill_skyline(const Bars& bars, const SkylineTaste& taste, Meter& meter) {
  if (bars.bars.empty()) return {};
  return Skyline(bars, taste, meter).run();
}

}  // namespace neap

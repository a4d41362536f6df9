#include "plan/pack_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "core/random.h"
#include "plan/pack_state.h"

namespace neap {
namespace {

constexpr std::size_t kMostRemembered = 1U << 20;

double priority_of(const Bar& b, SearchTaste::Priority p) {
  switch (p) {
    case SearchTaste::Priority::kSize: return static_cast<double>(b.size);
    case SearchTaste::Priority::kArea: return static_cast<double>(b.size) * static_cast<double>(b.life);
    case SearchTaste::Priority::kLife: return static_cast<double>(b.life);
    case SearchTaste::Priority::kSections: return static_cast<double>(b.last - b.first);
  }
  return 0;
}

std::vector<Component> split(const Bars& bars, const std::vector<std::uint32_t>& by_first) {
  std::vector<Component> out;
  for (const std::uint32_t i : by_first) {
    const Bar& b = bars.bars[i];
    if (out.empty() || b.first >= out.back().last) out.push_back({.first = b.first, .last = b.last});
    out.back().last = std::max(out.back().last, b.last);
    out.back().bars.push_back(i);
  }
  return out;
}

class Tree {
 public:
  Tree(const Bars& bars, std::int64_t capacity, const SearchTaste& taste, const Emphasis& emphasis, Meter& meter)
      : bars_(bars), taste_(taste), meter_(meter), capacity_(capacity), state_(bars, capacity) {
    offsets_.assign(bars.bars.size(), 0);
    is_placed_.assign(bars.bars.size(), 0);
    resting_.resize(bars.sections + 1);
    support_.resize(bars.sections + 1);
    rank_bars(emphasis);
    find_twins();
  }

  SearchEnd run() {
    std::vector<std::uint32_t> all(bars_.bars.size());
    std::iota(all.begin(), all.end(), 0U);
    std::stable_sort(all.begin(), all.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return bars_.bars[a].first < bars_.bars[b].first; });
    const std::vector<Component> parts = split(bars_, all);
    for (const Component& c : parts) {
      if (!state_.open(c)) return SearchEnd::kNoPacking;
    }
    return solve_all(parts);
  }

  const std::vector<std::uint32_t>& blame() const { return state_.blame(); }
  std::vector<std::int64_t> take_offsets() { return std::move(offsets_); }

 private:
  // Ranks are strict, so that of two equal packings one is preferred. 0 comes first.
  void rank_bars(const Emphasis& emphasis) {
    RandomStream random(taste_.seed);
    std::vector<double> priority;
    for (std::size_t i = 0; i < bars_.bars.size(); ++i) {
      const double noise = taste_.noise > 0 ? taste_.noise * random.uniform() : 0;
      const double factor = emphasis.empty() ? 1 : emphasis[i];
      priority.push_back(priority_of(bars_.bars[i], taste_.priority) * (1 + noise) * factor);
    }
    std::vector<std::uint32_t> order(priority.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return priority[a] > priority[b]; });
    rank_.resize(order.size());
    for (std::uint32_t r = 0; r < order.size(); ++r) rank_[order[r]] = r;
    by_rank_ = std::move(order);
  }

  void find_twins() {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> lanes;
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::int64_t>, std::uint32_t> last_equal;
    lane_.resize(bars_.bars.size());
    better_equal_.assign(bars_.bars.size(), kNoBar);
    for (const std::uint32_t i : by_rank_) {
      const Bar& b = bars_.bars[i];
      lane_[i] = lanes.try_emplace({b.first, b.last}, static_cast<std::uint32_t>(lanes.size())).first->second;
      const auto [at, is_new] = last_equal.try_emplace({b.first, b.last, b.size}, i);
      if (!is_new) better_equal_[i] = std::exchange(at->second, i);
    }
  }

  // Independent parts: the first that fails decides. Small ones come first, for they fail soonest.
  SearchEnd solve_all(std::vector<Component> parts) {
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Component& a, const Component& b) { return a.bars.size() < b.bars.size(); });
    for (const Component& c : parts) {
      if (const SearchEnd end = solve(c); end != SearchEnd::kFound) return end;
    }
    return SearchEnd::kFound;
  }

  SearchEnd solve(const Component& c) {
    if (!pay()) return SearchEnd::kLimit;
    const std::uint64_t key = key_of(c);
    if (failed_.contains(key)) return SearchEnd::kNoPacking;
    const SearchEnd end = branch(c);
    if (end == SearchEnd::kNoPacking && failed_.size() < kMostRemembered) failed_.insert(key);
    return end;
  }

  bool pay() {
    const std::int64_t done = state_.work() + work_;
    return meter_.spend(done - std::exchange(paid_, done));
  }

  SearchEnd branch(const Component& c) {
    const std::optional<std::uint32_t> section = choose_section(c);
    if (!section) return SearchEnd::kNoPacking;
    const std::int64_t at = state_.floor(*section);
    for (const std::uint32_t bar : candidates(*section)) {
      if (const SearchEnd end = try_bar(c, bar, at); end != SearchEnd::kNoPacking) return end;
    }
    const std::int64_t higher = next_floor(c, *section);
    if (higher == kSky || higher - at > state_.slack(*section)) return SearchEnd::kNoPacking;
    const PackState::Mark mark = state_.mark();
    const SearchEnd end = state_.raise(*section, higher, c) ? solve(c) : SearchEnd::kNoPacking;
    state_.roll_back(mark);
    return end;
  }

  SearchEnd try_bar(const Component& c, std::uint32_t bar, std::int64_t at) {
    std::vector<std::uint32_t> others;
    others.reserve(c.bars.size() - 1);
    std::copy_if(c.bars.begin(), c.bars.end(), std::back_inserter(others), [&](std::uint32_t i) { return i != bar; });
    work_ += static_cast<std::int64_t>(others.size());
    const PackState::Mark mark = state_.mark();
    offsets_[bar] = at;
    is_placed_[bar] = 1;
    const Component rest{.first = c.first, .last = c.last, .bars = std::move(others)};
    SearchEnd end = SearchEnd::kNoPacking;
    if (state_.place(bar, at, rest)) end = solve_all(split(bars_, rest.bars));
    state_.roll_back(mark);
    is_placed_[bar] = 0;
    return end;
  }

  using Score = std::array<std::int64_t, 3>;
  Score score(std::uint32_t section, std::int64_t branches) const {
    switch (taste_.place) {
      case SearchTaste::Place::kFewestLowest: return {branches, state_.floor(section), 0};
      case SearchTaste::Place::kLowest: return {state_.floor(section), branches, 0};
      case SearchTaste::Place::kFewestTightest: return {branches, state_.slack(section), state_.floor(section)};
      case SearchTaste::Place::kForcedLowest: return {branches > 1 ? 1 : 0, state_.floor(section), branches};
    }
    return {};
  }

  // Per section of a valley: how many bars rest on its bottom.
  void count_resting(const Component& c) {
    std::fill(resting_.begin() + c.first, resting_.begin() + c.last + 1, 0);
    for (const std::uint32_t i : c.bars) {
      const Bar& b = bars_.bars[i];
      if (state_.start(i) != state_.floor(b.first) || state_.start(i) != state_.rest(i)) continue;
      ++resting_[b.first];
      --resting_[b.last];
    }
    for (std::uint32_t k = c.first + 1; k < c.last; ++k) resting_[k] += resting_[k - 1];
    work_ += static_cast<std::int64_t>(c.bars.size()) + 3 * (c.last - c.first);
  }

  // A section of a valley; none when some section has nothing that could lie lowest. What starts on the bottom of a
  // valley lies within it, so all that it meets starts there or above: nothing can get below it any more.
  std::optional<std::uint32_t> choose_section(const Component& c) {
    count_resting(c);
    std::optional<std::uint32_t> best;
    Score least{};
    for (std::uint32_t k = c.first; k < c.last;) {
      std::uint32_t end = k + 1;
      while (end < c.last && state_.floor(end) == state_.floor(k)) ++end;
      const bool is_valley = (k == c.first || state_.floor(k - 1) > state_.floor(k)) &&
                             (end == c.last || state_.floor(end) > state_.floor(k));
      for (std::uint32_t q = k; is_valley && q < end; ++q) {
        const std::int64_t branches = resting_[q] + (state_.slack(q) > 0 ? 1 : 0);
        if (branches == 0) return std::nullopt;
        const Score s = score(q, branches);
        if (!best || s < least) {
          least = s;
          best = q;
        }
      }
      k = end;
    }
    return best;
  }

  // Bars that may rest on the floor of a section, the best first.
  std::vector<std::uint32_t> candidates(std::uint32_t section) const {
    const std::int64_t at = state_.floor(section);
    std::vector<std::uint32_t> out;
    for (const std::uint32_t i : state_.members(section)) {
      if (state_.start(i) == at && state_.rest(i) == at && is_preferred(i, at)) out.push_back(i);
    }
    std::sort(out.begin(), out.end(), [&](std::uint32_t a, std::uint32_t b) { return rank_[a] < rank_[b]; });
    return out;
  }

  // Of equal bars the best comes first; of bars with equal sections that touch, the better lies below.
  bool is_preferred(std::uint32_t i, std::int64_t at) const {
    if (taste_.only != nullptr && (*taste_.only)[i] != at) return false;
    if (better_equal_[i] != kNoBar && !is_placed_[better_equal_[i]]) return false;
    const std::uint32_t below = state_.top_bar(bars_.bars[i].first);
    return below == kNoBar || lane_[below] != lane_[i] || state_.ground(bars_.bars[i].first) != at ||
           rank_[below] < rank_[i];
  }

  // The lowest height above its floor at which the lowest bar of a section could rest; kSky if none can.
  std::int64_t next_floor(const Component& c, std::uint32_t section) {
    find_supports(c, section);
    const std::int64_t at = state_.floor(section);
    std::int64_t lowest = kSky;
    for (const std::uint32_t i : state_.members(section)) {
      const Bar& b = bars_.bars[i];
      const std::int64_t start = state_.start(i);
      if (start > at && start == state_.rest(i)) {
        lowest = std::min(lowest, start);
        continue;
      }
      const std::int64_t support = std::min(support_[b.first], support_[b.last]);
      lowest = std::min(lowest, std::max({start, support, at + 1}));
    }
    return lowest;
  }

  // A bar that covers `section` and floats can only come to rest on an unplaced one beside the section, for it is to be
  // the lowest within. support_[x], x <= section: the lowest top of those that end in (x, section]; x > section: of
  // those that begin in (section, x).
  void find_supports(const Component& c, std::uint32_t section) {
    std::fill(support_.begin() + c.first, support_.begin() + c.last + 1, kSky);
    for (const std::uint32_t i : c.bars) {
      const Bar& b = bars_.bars[i];
      const std::int64_t top = state_.start(i) + b.size;
      if (b.last <= section) {
        support_[b.last - 1] = std::min(support_[b.last - 1], top);
      } else if (b.first > section) {
        support_[b.first + 1] = std::min(support_[b.first + 1], top);
      }
    }
    support_[section] = kSky;
    for (std::uint32_t x = section; x-- > c.first;) support_[x] = std::min(support_[x], support_[x + 1]);
    for (std::uint32_t x = section + 2; x <= c.last; ++x) support_[x] = std::min(support_[x], support_[x - 1]);
    work_ += static_cast<std::int64_t>(c.bars.size()) + 2 * (c.last - c.first);
  }

  std::uint64_t key_of(const Component& c) {
    std::uint64_t h = 0x9E3779B97F4A7C15ULL;
    const auto add = [&h](std::uint64_t x) {
      h = (h ^ x) * 0xD6E8FEB86659FD93ULL;
      h ^= h >> 32;
    };
    for (const std::uint32_t i : c.bars) {
      add(i);
      const std::uint32_t below = state_.top_bar(bars_.bars[i].first);
      if (below != kNoBar && lane_[below] == lane_[i]) add(rank_[below]);
    }
    for (std::uint32_t k = c.first; k < c.last; ++k) {
      add(static_cast<std::uint64_t>(state_.floor(k)));
      add(static_cast<std::uint64_t>(state_.ground(k)));
    }
    work_ += 2 * static_cast<std::int64_t>(c.bars.size()) + 4 * (c.last - c.first);
    return h;
  }

  const Bars& bars_;
  const SearchTaste& taste_;
  Meter& meter_;
  std::int64_t capacity_;
  PackState state_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::uint8_t> is_placed_;
  std::vector<std::uint32_t> rank_, by_rank_;
  std::vector<std::uint32_t> lane_;          // bars with equal sections have equal lanes
  std::vector<std::uint32_t> better_equal_;  // the next better bar of equal sections and size, or kNoBar
  std::vector<std::int32_t> resting_;
  std::vector<std::int64_t> support_;
  std::unordered_set<std::uint64_t> failed_;
  std::int64_t work_ = 0;
  std::int64_t paid_ = 0;
};

}  // namespace

std::int64_t dive_steps(const Bars& bars) { return static_cast<std::int64_t>(bars.bars.size()) * bars.cells(); }

SearchResult search_once(const Bars& bars, std::int64_t capacity, const SearchTaste& taste, const Emphasis& emphasis,
                         Meter& meter) {
  Tree tree(bars, capacity, taste, emphasis, meter);
  SearchResult out{.end = tree.run()};
  if (out.end == SearchEnd::kFound) out.offsets = tree.take_offsets();
  out.blame = tree.blame();
  return out;
}

namespace {

// A taste that is tried again and again, and what was learnt about the bars meanwhile.
struct Contestant {
  SearchTaste taste;
  std::vector<double> emphasis;  // per bar, in logarithms
};

std::vector<Contestant> contestants(std::size_t bars) {
  using P = SearchTaste::Priority;
  using L = SearchTaste::Place;
  std::vector<Contestant> out;
  for (const L place : {L::kLowest, L::kFewestTightest}) {
    for (const P priority : {P::kSize, P::kArea, P::kLife}) {
      out.push_back({{.priority = priority, .place = place}, std::vector<double>(bars)});
    }
  }
  return out;
}

// exp() by squaring: the same bits on every machine.
Emphasis factors(const std::vector<double>& logarithms) {
  Emphasis out;
  for (const double x : logarithms) {
    double y = 1 + x / 16;
    for (int i = 0; i < 4; ++i) y *= y;
    out.push_back(y);
  }
  return out;
}

// Bars that were left over come earlier next time.
void learn(std::vector<double>& emphasis, const std::vector<std::uint32_t>& blame) {
  constexpr double kKept = 0.9;
  const double most = std::max(1U, *std::max_element(blame.begin(), blame.end()));
  for (std::size_t i = 0; i < blame.size(); ++i) emphasis[i] = kKept * emphasis[i] + blame[i] / most;
}

}  // namespace

SearchResult search_packing(const Bars& bars, std::int64_t capacity, Meter& meter) {
  double allowance = 4.0 * static_cast<double>(dive_steps(bars)) + 10'000;
  std::vector<Contestant> all = contestants(bars.bars.size());
  for (std::uint64_t round = 0; !meter.is_spent(); ++round, allowance *= 1.3) {
    for (Contestant& c : all) {
      Meter turn(meter, static_cast<std::int64_t>(std::min(allowance, 1e18)));
      c.taste.noise = round == 0 ? 0 : 0.5;
      c.taste.seed = round;
      SearchResult result = search_once(bars, capacity, c.taste, factors(c.emphasis), turn);
      if (result.end != SearchEnd::kLimit) return result;
      if (meter.is_spent()) break;
      learn(c.emphasis, result.blame);
    }
  }
  return {};
}

}  // namespace neap

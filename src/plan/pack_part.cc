#include "plan/pack_part.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/random.h"
#include "plan/pack_greedy.h"
#include "plan/pack_search.h"

namespace neap {
namespace {

// The search keeps a table of bars times sections; above this size only heuristics run.
constexpr std::int64_t kMostCells = 4'000'000;
constexpr std::size_t kMostFirstFit = 5000;  // it takes bars^2
constexpr std::uint64_t kRandomTastes = 16;
constexpr std::uint64_t kFewSkylines = 24;
constexpr std::uint64_t kMostSkylines = 1000;

std::vector<std::uint32_t> order_by(const Bars& bars, double (*key)(const Bar&)) {
  std::vector<std::uint32_t> order(bars.bars.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const double x = key(bars.bars[a]);
    const double y = key(bars.bars[b]);
    return x != y ? x > y : bars.bars[a].life > bars.bars[b].life;
  });
  return order;
}

SkylineTaste random_taste(std::uint64_t i) {
  RandomStream random(i, 1);
  return {.life = 2 * random.uniform(),
          .size = 2 * random.uniform(),
          .beside_wall = i % 2 == 0 ? 0 : 2 * random.uniform(),
          .level = i % 3 == 0 ? 0 : 3 * random.uniform(),
          .pressure = 200 * random.uniform(),
          .noise = i < 8 ? 0 : random.uniform(),
          .seed = i};
}

SkylineTaste varied(SkylineTaste taste, std::uint64_t i) {
  taste.noise = 0.3 * RandomStream(i, 1).uniform();
  taste.seed = i;
  return taste;
}

// Bars that hang together in time, none of which spans all of their sections.
class Part {
 public:
  Part(const Bars& bars, PartGoals goals) : bars_(bars), goals_(goals), can_search_(bars.cells() <= kMostCells) {
    best_.height = kNoCapacity;
  }

  void run(Meter& to_fit, Meter& to_improve) {
    try_simple(to_improve);
    if (best_.height > goals_.limit) get_below_limit(to_fit);
    if (best_.height > goals_.bound && can_search_) search_low(to_improve);
    try_skylines(goals_.bound, kMostSkylines, to_improve);
  }

  const Heights& best() const { return best_; }
  bool is_impossible() const { return is_impossible_; }

 private:
  void get_below_limit(Meter& meter) {
    try_skylines(goals_.limit, can_search_ ? kFewSkylines : kMostSkylines, meter);
    if (best_.height <= goals_.limit || !can_search_) return;
    is_impossible_ = search(goals_.limit, meter) == SearchEnd::kNoPacking;
  }

  void offer(Heights&& next) {
    if (next.height < best_.height) best_ = std::move(next);
  }

  void try_simple(Meter& meter) {
    for (const auto& [life, size] : {std::pair{1.0, 1.0}, {1.0, 0.0}, {0.0, 1.0}}) {
      offer(fill_skyline(bars_, {.life = life, .size = size}, meter));
      if (best_.height <= goals_.bound) return;
    }
    if (bars_.bars.size() > kMostFirstFit) return;
    const auto keys = {
        +[](const Bar& b) { return static_cast<double>(b.size); },
        +[](const Bar& b) { return static_cast<double>(b.size) * static_cast<double>(b.life); },
        +[](const Bar& b) { return static_cast<double>(b.life); },
    };
    for (const auto& key : keys) {
      if (best_.height <= goals_.bound || meter.is_spent()) return;
      offer(fit_in_order(bars_, order_by(bars_, key), Fit::kFirst, meter));
    }
  }

  // First the bound itself is tried, then heights half way between what was missed and the best.
  void search_low(Meter& meter) {
    for (std::int64_t goal = goals_.bound; goal < best_.height; goal += (best_.height - goal + 1) / 2) {
      Meter share(meter, meter.left() / 4);
      if (share.left() < dive_steps(bars_)) return;
      if (search(goal, share) == SearchEnd::kFound) return;
      if (meter.is_spent() || best_.height - goal <= best_.height / 512) return;
    }
  }

  SearchEnd search(std::int64_t goal, Meter& meter) {
    SearchResult result = search_packing(bars_, goal, meter);
    if (result.end == SearchEnd::kFound) {
      Heights found{.offsets = std::move(result.offsets)};
      for (std::size_t i = 0; i < found.offsets.size(); ++i) {
        found.height = std::max(found.height, found.offsets[i] + bars_.bars[i].size);
      }
      offer(std::move(found));
    }
    return result.end;
  }

  // Random tastes, then ever new noise on the best of them.
  void try_skylines(std::int64_t goal, std::uint64_t count, Meter& meter) {
    for (std::uint64_t i = 0; i < count && best_.height > goal && !meter.is_spent(); ++i) {
      SkylineTaste taste = i < kRandomTastes ? random_taste(i) : varied(best_taste_, i);
      if (!can_search_) taste.pressure = 0;  // it looks at every cell
      Heights next = fill_skyline(bars_, taste, meter);
      if (next.height < best_skyline_) {
        best_skyline_ = next.height;
        best_taste_ = taste;
      }
      offer(std::move(next));
    }
  }

  const Bars& bars_;
  PartGoals goals_;
  bool can_search_;
  bool is_impossible_ = false;
  Heights best_;
  SkylineTaste best_taste_;
  std::int64_t best_skyline_ = kNoCapacity;
};

// A group to be packed from `base` upwards.
struct Todo {
  Group group;
  std::int64_t base = 0;
};

// Takes bars apart. A bar that spans its whole group may as well lie at the bottom; without it the group may fall
// apart.
std::vector<Todo> take_apart(const Bars& bars, std::vector<std::int64_t>& offsets) {
  std::vector<Todo> open = {{.group = Group(bars.bars.size())}};
  std::iota(open[0].group.begin(), open[0].group.end(), 0U);
  std::vector<Todo> parts;
  while (!open.empty()) {
    const Todo todo = std::move(open.back());
    open.pop_back();
    const Bars local = select(bars, todo.group);
    for (const Group& members : independent_groups(local)) {
      std::uint32_t last = 0;
      for (const std::uint32_t i : members) last = std::max(last, local.bars[i].last);
      const std::uint32_t first = local.bars[members[0]].first;
      Todo rest{.base = todo.base};
      for (const std::uint32_t i : members) {
        if (local.bars[i].first == first && local.bars[i].last == last) {
          offsets[todo.group[i]] = std::exchange(rest.base, rest.base + local.bars[i].size);
        } else {
          rest.group.push_back(todo.group[i]);
        }
      }
      if (rest.group.empty()) continue;
      (rest.group.size() == members.size() ? parts : open).push_back(std::move(rest));
    }
  }
  return parts;
}

}  // namespace

PartsPacking pack_parts(const Bars& bars, PartGoals goals, const PackLimits& limits) {
  PartsPacking out;
  out.offsets.assign(bars.bars.size(), 0);
  Meter to_fit(limits.steps, limits.is_over);
  Meter to_improve(limits.improve_steps, limits.is_over);
  for (const Todo& todo : take_apart(bars, out.offsets)) {
    const Bars local = select(bars, todo.group);
    Part part(local, {.bound = goals.bound - todo.base, .limit = goals.limit - todo.base});
    part.run(to_fit, to_improve);
    for (std::size_t i = 0; i < todo.group.size(); ++i) {
      out.offsets[todo.group[i]] = todo.base + part.best().offsets[i];
    }
    // Where one part is higher than the bound, the others need not be lower.
    goals.bound = std::max(goals.bound, todo.base + part.best().height);
    out.is_impossible = out.is_impossible || part.is_impossible();
  }
  return out;
}

}  // namespace neap

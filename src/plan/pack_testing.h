// Packing problems for tests.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "core/random.h"
#include "plan/pack.h"

namespace neap {

struct RandomItems {
  std::uint64_t count = 1;
  std::uint64_t ticks = 100;
  std::uint64_t life = 20;
  std::uint64_t size = 1000;
  std::int64_t unit = 1;
};

inline std::vector<PackItem> random_items(RandomStream& random, const RandomItems& r) {
  std::vector<PackItem> items;
  for (std::uint64_t i = 0; i < r.count; ++i) {
    const auto lower = static_cast<std::int64_t>(random.below(r.ticks));
    items.push_back({.lower = lower,
                     .upper = lower + 1 + static_cast<std::int64_t>(random.below(r.life)),
                     .size = r.unit * static_cast<std::int64_t>(1 + random.below(r.size))});
  }
  return items;
}

// `height` bytes are alive at any time: now and then some items end, and others of the same sizes together begin. No
// packing at that height exists for some of these, since what ends together need not lie together.
inline std::vector<PackItem> full_load_items(RandomStream& random, std::size_t count, std::int64_t height) {
  std::vector<PackItem> items;
  std::vector<std::size_t> live;
  std::int64_t free = height;
  std::int64_t tick = 0;
  for (; items.size() < count; ++tick) {
    while (free > 0) {
      const auto most = static_cast<std::uint64_t>(std::min(free, 1 + height / 2));
      live.push_back(items.size());
      items.push_back({.lower = tick, .size = 1 + static_cast<std::int64_t>(random.below(most))});
      free -= items.back().size;
    }
    std::erase_if(live, [&](std::size_t i) {
      if (random.below(3) != 0) return false;
      items[i].upper = tick + 1;
      free += items[i].size;
      return true;
    });
  }
  for (const std::size_t i : live) items[i].upper = tick;
  return items;
}

// Whether few items, at ticks 0 up to 31, can be packed within a height. If they can, then also so that none can be
// moved down: taken in the order of their offsets, each lies right above those before it that it meets. All such orders
// are tried, except when what is left above the last offset cannot fit at some tick.
class TinyPacker {
 public:
  TinyPacker(const std::vector<PackItem>& items, std::int64_t height)
      : items_(items), height_(height), is_placed_(items.size()) {}

  bool fits(std::int64_t last_offset = 0) {
    if (!is_room_left(last_offset)) return false;
    bool is_all = true;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (is_placed_[i]) continue;
      is_all = false;
      const std::int64_t offset = *std::max_element(top_.begin() + items_[i].lower, top_.begin() + items_[i].upper);
      if (offset < last_offset || offset + items_[i].size > height_) continue;
      const auto before = top_;
      std::fill(top_.begin() + items_[i].lower, top_.begin() + items_[i].upper, offset + items_[i].size);
      is_placed_[i] = true;
      const bool is_good = fits(offset);
      top_ = before;
      is_placed_[i] = false;
      if (is_good) return true;
    }
    return is_all;
  }

 private:
  bool is_room_left(std::int64_t last_offset) const {
    std::array<std::int64_t, 32> sum{};
    for (std::size_t i = 0; i < items_.size(); ++i) {
      for (auto t = items_[i].lower; !is_placed_[i] && t < items_[i].upper; ++t) sum[t] += items_[i].size;
    }
    for (std::size_t t = 0; t < sum.size(); ++t) {
      if (sum[t] > 0 && std::max(last_offset, top_[t]) + sum[t] > height_) return false;
    }
    return true;
  }

  const std::vector<PackItem>& items_;
  std::int64_t height_;
  std::vector<bool> is_placed_;
  std::array<std::int64_t, 32> top_{};  // per tick
};

inline std::int64_t lowest_height(const std::vector<PackItem>& items) {
  std::int64_t height = max_live(items);
  while (!TinyPacker(items, height).fits()) ++height;
  return height;
}

// A rectangle of `ticks` by `height`, cut into `count` items without waste: the packing that fits has no slack at all.
inline std::vector<PackItem> cut_rectangle(RandomStream& random, std::size_t count, std::int64_t ticks,
                                           std::int64_t height) {
  std::vector<PackItem> items = {{.lower = 0, .upper = ticks, .size = height}};
  while (items.size() < count) {
    const std::size_t i = random.below(items.size());
    const PackItem whole = items[i];
    if (random.below(2) == 0 && whole.size > 1) {
      items[i].size = 1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(whole.size - 1)));
      items.push_back({whole.lower, whole.upper, whole.size - items[i].size});
    } else if (whole.upper - whole.lower > 1) {
      items[i].upper =
          whole.lower + 1 +
          static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(whole.upper - whole.lower - 1)));
      items.push_back({items[i].upper, whole.upper, whole.size});
    }
  }
  return items;
}

}  // namespace neap

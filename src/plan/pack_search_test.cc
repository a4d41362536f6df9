#include "plan/pack_search.h"

#include <gtest/gtest.h>

#include "plan/pack_greedy.h"
#include "plan/pack_testing.h"
#include "plan/pack_validate.h"

namespace neap {
namespace {

constexpr SearchTaste::Priority kPriorities[] = {SearchTaste::Priority::kSize, SearchTaste::Priority::kArea,
                                                 SearchTaste::Priority::kLife, SearchTaste::Priority::kSections};
constexpr SearchTaste::Place kPlaces[] = {SearchTaste::Place::kFewestLowest, SearchTaste::Place::kLowest,
                                          SearchTaste::Place::kFewestTightest, SearchTaste::Place::kForcedLowest};

bool is_sound(const std::vector<PackItem>& items, const std::vector<std::int64_t>& offsets) {
  Packing p{.offsets = offsets};
  for (std::size_t i = 0; i < items.size(); ++i) p.height = std::max(p.height, offsets[i] + items[i].size);
  return find_fault({.items = items}, p).empty();
}

std::vector<SearchTaste> all_tastes(std::uint64_t seed) {
  std::vector<SearchTaste> out;
  for (const auto priority : kPriorities) {
    for (const auto place : kPlaces) out.push_back({.priority = priority, .place = place, .noise = 0.5, .seed = seed});
  }
  return out;
}

// Every taste must find a packing exactly where there is one.
TEST(PackSearch, IsExactWithEveryTaste) {
  RandomStream random(23);
  int above_bound = 0;
  for (int round = 0; round < 250; ++round) {
    const auto items = round % 4 == 0
                           ? random_items(random, {.count = 2 + random.below(6), .ticks = 7, .life = 6, .size = 5})
                           : full_load_items(random, 16, 7 + static_cast<std::int64_t>(random.below(3)));
    const std::int64_t lowest = lowest_height(items);
    above_bound += lowest > max_live(items) ? 1 : 0;
    const Bars bars = to_bars(items);
    for (const SearchTaste& taste : all_tastes(random.next())) {
      Meter meter(kNoCapacity, {});
      const SearchResult found = search_once(bars, lowest, taste, {}, meter);
      ASSERT_EQ(found.end, SearchEnd::kFound) << round;
      ASSERT_TRUE(is_sound(items, found.offsets)) << round;
      ASSERT_EQ(search_once(bars, lowest - 1, taste, {}, meter).end, SearchEnd::kNoPacking) << round;
    }
  }
  EXPECT_GT(above_bound, 1);
}

// Where a packing is known, no search may end without one, however much is pruned.
TEST(PackSearch, NeverMissesAPackingThatIsKnown) {
  RandomStream random(31);
  for (int round = 0; round < 300; ++round) {
    auto items = cut_rectangle(random, 8 + random.below(30), 40, 8 + static_cast<std::int64_t>(random.below(40)));
    const std::int64_t height = max_live(items);
    items.resize(items.size() - random.below(items.size() / 2));  // slack, of which the search must make use
    for (const SearchTaste& taste : all_tastes(random.next())) {
      Meter meter(300'000, {});
      const SearchResult result = search_once(to_bars(items), height, taste, {}, meter);
      ASSERT_NE(result.end, SearchEnd::kNoPacking) << round;
    }
  }
}

// Moves items down, and better ones below worse ones of the same sections, until nothing moves. Better is larger, or
// earlier among equals: the order of kSize. The search promises to look at all packings of this kind.
class Settled {
 public:
  Settled(const std::vector<PackItem>& items, std::vector<std::int64_t> offsets)
      : bars_(to_bars(items).bars), offsets_(std::move(offsets)) {
    while (drop_one() || swap_two()) {
    }
  }

  const std::vector<std::int64_t>& offsets() const { return offsets_; }
  std::int64_t height() const {
    std::int64_t height = 0;
    for (std::size_t i = 0; i < bars_.size(); ++i) height = std::max(height, top(i));
    return height;
  }

 private:
  std::int64_t top(std::size_t i) const { return offsets_[i] + bars_[i].size; }

  bool is_free(std::size_t i, std::int64_t at) const {
    for (std::size_t j = 0; j < bars_.size(); ++j) {
      const bool meet = bars_[i].first < bars_[j].last && bars_[j].first < bars_[i].last;
      if (j != i && meet && at < top(j) && offsets_[j] < at + bars_[i].size) return false;
    }
    return true;
  }

  bool drop_one() {
    for (std::size_t i = 0; i < bars_.size(); ++i) {
      for (std::int64_t at = 0; at < offsets_[i]; ++at) {
        if (!is_free(i, at)) continue;
        offsets_[i] = at;
        return true;
      }
    }
    return false;
  }

  bool swap_two() {
    for (std::size_t i = 0; i < bars_.size(); ++i) {
      for (std::size_t j = 0; j < bars_.size(); ++j) {
        const bool is_better = bars_[i].size > bars_[j].size || (bars_[i].size == bars_[j].size && i < j);
        const bool is_same_lane = bars_[i].first == bars_[j].first && bars_[i].last == bars_[j].last;
        const bool is_swappable =
            offsets_[i] == top(j) || (bars_[i].size == bars_[j].size && offsets_[i] > offsets_[j]);
        if (i == j || !is_better || !is_same_lane || !is_swappable) continue;
        const std::int64_t at = offsets_[j];
        offsets_[j] = bars_[i].size == bars_[j].size ? offsets_[i] : at + bars_[i].size;
        offsets_[i] = at;
        return true;
      }
    }
    return false;
  }

  std::vector<Bar> bars_;
  std::vector<std::int64_t> offsets_;
};

TEST(PackSearch, LooksAtEveryPackingInWhichNothingCanMoveDown) {
  RandomStream random(43);
  for (int round = 0; round < 1000; ++round) {
    const auto items = random_items(random, {.count = 2 + random.below(14), .ticks = 12, .life = 8, .size = 6});
    const Bars bars = to_bars(items);
    std::vector<std::uint32_t> order(items.size());
    std::iota(order.begin(), order.end(), 0U);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    Meter meter(kNoCapacity, {});
    const Settled settled(items, fit_in_order(bars, order, Fit::kFirst, meter).offsets);
    for (const auto place : kPlaces) {
      const SearchTaste taste{.place = place, .only = &settled.offsets()};
      const auto capacity = settled.height() + static_cast<std::int64_t>(random.below(3));
      const SearchResult result = search_once(bars, capacity, taste, {}, meter);
      ASSERT_EQ(result.end, SearchEnd::kFound) << round;
      EXPECT_EQ(result.offsets, settled.offsets()) << round;
    }
  }
}

TEST(PackSearch, HeuristicsAreSound) {
  RandomStream random(29);
  for (int round = 0; round < 100; ++round) {
    const auto items = random_items(random, {.count = 1 + random.below(80)});
    const Bars bars = to_bars(items);
    std::vector<std::uint32_t> order(items.size());
    std::iota(order.begin(), order.end(), 0U);
    Meter meter(kNoCapacity, {});
    EXPECT_TRUE(is_sound(items, fit_in_order(bars, order, Fit::kFirst, meter).offsets));
    EXPECT_TRUE(is_sound(items, fit_in_order(bars, order, Fit::kBest, meter).offsets));
    const SkylineTaste taste{.life = 1, .size = 0.5, .beside_wall = 1, .level = 2, .noise = 1, .seed = random.next()};
    EXPECT_TRUE(is_sound(items, fill_skyline(bars, taste, meter).offsets));
  }
}

TEST(PackBars, SectionsAreMaximalSets) {
  const std::vector<PackItem> items = {{.lower = 0, .upper = 10, .size = 1},
                                       {.lower = 2, .upper = 4, .size = 1},
                                       {.lower = 3, .upper = 4, .size = 1},
                                       {.lower = 4, .upper = 6, .size = 1},
                                       {.lower = 20, .upper = 21, .size = 1}};
  const Bars bars = to_bars(items);
  EXPECT_EQ(bars.sections, 3U);
  EXPECT_EQ(bars.bars[0].first, 0U);
  EXPECT_EQ(bars.bars[0].last, 2U);
  EXPECT_EQ(bars.cells(), 2 + 1 + 1 + 1 + 1);
  EXPECT_EQ(max_live(bars), 3);
  EXPECT_EQ(independent_groups(bars).size(), 2U);
}

}  // namespace
}  // namespace neap

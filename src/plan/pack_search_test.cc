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
  for (int round = 0; round < 500; ++round) {
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

// All tastes agree on what is possible.
TEST(PackSearch, TastesAgree) {
  RandomStream random(37);
  for (int round = 0; round < 200; ++round) {
    auto items = full_load_items(random, 30, 6 + static_cast<std::int64_t>(random.below(8)));
    items.erase(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(random.below(6)));
    const Bars bars = to_bars(items);
    int found = 0;
    int none = 0;
    for (const SearchTaste& taste : all_tastes(random.next())) {
      Meter meter(3'000'000, {});
      const SearchEnd end = search_once(bars, max_live(items), taste, {}, meter).end;
      found += end == SearchEnd::kFound ? 1 : 0;
      none += end == SearchEnd::kNoPacking ? 1 : 0;
    }
    ASSERT_TRUE(found == 0 || none == 0) << round << ": " << found << " found a packing, " << none << " found none";
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

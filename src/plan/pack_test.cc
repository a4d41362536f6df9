#include "plan/pack.h"

#include <gtest/gtest.h>

#include "core/random.h"

namespace neap {
namespace {

// Independent of pack(): every pair that meets in time must not meet in space.
void expect_sound(const std::vector<PackItem>& items, const Packing& p) {
  ASSERT_EQ(p.offsets.size(), items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    EXPECT_GE(p.offsets[i], 0);
    EXPECT_LE(p.offsets[i] + items[i].size, p.height);
    for (std::size_t j = 0; j < i; ++j) {
      const bool meet = items[i].lower < items[j].upper && items[j].lower < items[i].upper;
      const bool apart = p.offsets[i] + items[i].size <= p.offsets[j] || p.offsets[j] + items[j].size <= p.offsets[i];
      EXPECT_TRUE(!meet || apart) << i << " and " << j;
    }
  }
}

TEST(Pack, NothingTakesNothing) { EXPECT_EQ(pack({}).height, 0); }

TEST(Pack, ReusesWhatIsFree) {
  const std::vector<PackItem> items = {{.lower = 0, .upper = 2, .size = 64}, {.lower = 2, .upper = 4, .size = 64}};
  EXPECT_EQ(pack(items).height, 64);
}

TEST(Pack, UpperIsExclusive) {
  const std::vector<PackItem> items = {{.lower = 0, .upper = 3, .size = 64}, {.lower = 2, .upper = 4, .size = 64}};
  EXPECT_EQ(pack(items).height, 128);
  EXPECT_EQ(max_live(items), 128);
}

TEST(Pack, RandomProblemsAreSoundAndNearTheBound) {
  RandomStream random(7);
  for (int round = 0; round < 100; ++round) {
    std::vector<PackItem> items;
    const auto n = 1 + random.below(120);
    for (std::uint64_t i = 0; i < n; ++i) {
      const auto lower = static_cast<std::uint32_t>(random.below(200));
      items.push_back({.lower = lower,
                       .upper = lower + 1 + static_cast<std::uint32_t>(random.below(60)),
                       .size = 64 * static_cast<std::int64_t>(1 + random.below(1000))});
    }
    const Packing p = pack(items);
    expect_sound(items, p);
    EXPECT_GE(p.height, max_live(items));
    EXPECT_LE(static_cast<double>(p.height), 1.5 * static_cast<double>(max_live(items)));
  }
}

}  // namespace
}  // namespace neap

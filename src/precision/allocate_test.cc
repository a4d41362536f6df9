#include "precision/allocate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"

namespace neap::precision {
namespace {

const std::vector<Level> kUsed = {Level::kFp32, Level::kBf16, Level::kInt8, Level::kInt4};

AllocationItem item(std::int64_t elements, double sensitivity) {
  return {elements,
          {0, 3e-8 * sensitivity, 2.4e-6 * sensitivity, 8e-5 * sensitivity, 0.023 * sensitivity, 7 * sensitivity}};
}

std::vector<AllocationItem> random_items(std::uint64_t seed, std::size_t count) {
  RandomStream random(seed);
  std::vector<AllocationItem> items;
  for (std::size_t i = 0; i < count; ++i) {
    items.push_back(item(static_cast<std::int64_t>(1 + random.below(100000)), std::exp(3 * random.normal())));
  }
  return items;
}

// What an allocation says of itself, added up again.
void check(const Allocation& a, const std::vector<AllocationItem>& items, double target) {
  ASSERT_EQ(a.levels.size(), items.size());
  std::int64_t bytes = 0;
  double variance = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    bytes += encoded_bytes(a.levels[i], items[i].elements);
    variance += items[i].variance[index_of(a.levels[i])];
  }
  EXPECT_EQ(a.bytes, bytes);
  EXPECT_NEAR(a.variance, variance, 1e-12 + 1e-12 * variance);
  EXPECT_LE(variance, target * (1 + 1e-12));
}

std::int64_t best_by_trying(const std::vector<AllocationItem>& items, double target) {
  std::int64_t best = INT64_MAX;
  const std::size_t all = static_cast<std::size_t>(std::pow(kUsed.size(), items.size()));
  for (std::size_t code = 0; code < all; ++code) {
    std::int64_t bytes = 0;
    double variance = 0;
    std::size_t rest = code;
    for (const AllocationItem& i : items) {
      bytes += encoded_bytes(kUsed[rest % kUsed.size()], i.elements);
      variance += i.variance[index_of(kUsed[rest % kUsed.size()])];
      rest /= kUsed.size();
    }
    if (variance <= target) best = std::min(best, bytes);
  }
  return best;
}

TEST(Allocate, ExactIsTheOptimum) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto items = random_items(seed, 6);
    for (const double target : {1e-5, 1e-3, 0.1, 1.0}) {
      const auto exact = allocate_exactly(items, kUsed, target);
      ASSERT_TRUE(exact);
      check(*exact, items, target);
      EXPECT_EQ(exact->bytes, best_by_trying(items, target));
    }
  }
}

// Greedy is feasible, never better, and seldom much worse.
TEST(Allocate, GreedyComesNearTheOptimum) {
  double worst = 0;
  double sum = 0;
  int cases = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto items = random_items(100 + seed, 16);
    for (const double target : {1e-3, 0.1, 1.0}) {
      const Allocation greedy = allocate_greedily(items, kUsed, target);
      check(greedy, items, target);
      const auto exact = allocate_exactly(items, kUsed, target);
      ASSERT_TRUE(exact);
      ASSERT_GE(greedy.bytes, exact->bytes);
      const double gap = static_cast<double>(greedy.bytes) / static_cast<double>(exact->bytes) - 1;
      worst = std::max(worst, gap);
      sum += gap;
      ++cases;
    }
  }
  RecordProperty("mean_gap_ppm", static_cast<int>(1e6 * sum / cases));
  RecordProperty("worst_gap_ppm", static_cast<int>(1e6 * worst));
  EXPECT_LT(sum / cases, 0.01);
  EXPECT_LT(worst, 0.15);
}

TEST(Allocate, GivesBitsToWhatIsSensitive) {
  const std::vector<AllocationItem> items = {item(10000, 100), item(10000, 0.01)};
  const Allocation a = allocate_greedily(items, kUsed, 0.05);
  EXPECT_EQ(a.levels, (std::vector<Level>{Level::kInt8, Level::kInt4}));
  EXPECT_EQ(allocate_greedily(items, kUsed, 1e9).levels, (std::vector<Level>{Level::kInt4, Level::kInt4}));
  EXPECT_EQ(allocate_greedily(items, kUsed, 0).levels, (std::vector<Level>{Level::kFp32, Level::kFp32}));
}

TEST(Allocate, SpareBytesGoWhereTheyTakeMostVariance) {
  // The second is small, the third errs most for its bytes.
  const std::vector<AllocationItem> items = {item(100'000, 1), item(1000, 1), item(1000, 50)};
  const Allocation least = allocate_greedily(items, kUsed, 1e9);
  EXPECT_EQ(with_spare_bytes(items, kUsed, least, least.bytes), least);
  const std::int64_t one = encoded_bytes(Level::kInt8, 1000) - encoded_bytes(Level::kInt4, 1000);
  const Allocation more = with_spare_bytes(items, kUsed, least, least.bytes + one);
  EXPECT_EQ(more.levels, (std::vector<Level>{Level::kInt4, Level::kInt4, Level::kInt8}));
  EXPECT_EQ(more.bytes, least.bytes + one);
  EXPECT_LT(more.variance, least.variance);
  const Allocation all = with_spare_bytes(items, kUsed, least, 1'000'000);
  EXPECT_EQ(all.levels, std::vector<Level>(3, Level::kFp32));
  EXPECT_NEAR(all.variance, 0, 1e-9);
}

TEST(Allocate, LeavesAloneWhatMustStayExact) {
  AllocationItem bad = item(1000, 1);
  for (std::size_t l = 1; l < bad.variance.size(); ++l) bad.variance[l] = INFINITY;
  const std::vector<AllocationItem> items = {bad, item(1000, 1)};
  for (const Allocation& a : {allocate_greedily(items, kUsed, 1e9), *allocate_exactly(items, kUsed, 1e9)}) {
    EXPECT_EQ(a.levels, (std::vector<Level>{Level::kFp32, Level::kInt4}));
  }
}

TEST(Allocate, FreeLevelsAreTakenEvenWithoutATarget) {
  AllocationItem mask = item(1000, 1);
  mask.variance[index_of(Level::kBit)] = 0;
  const std::vector<Level> levels = {Level::kFp32, Level::kInt8, Level::kBit};
  EXPECT_EQ(allocate_greedily({&mask, 1}, levels, 0).levels[0], Level::kBit);
  EXPECT_EQ(allocate_exactly({&mask, 1}, levels, 0)->levels[0], Level::kBit);
}

TEST(Allocate, NothingAndTooMuch) {
  EXPECT_EQ(allocate_greedily({}, kUsed, 1), Allocation{});
  EXPECT_EQ(*allocate_exactly({}, kUsed, 1), Allocation{});
  EXPECT_FALSE(allocate_exactly(random_items(1, 20), kUsed, 1, 10));
}

}  // namespace
}  // namespace neap::precision

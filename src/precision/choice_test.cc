#include "precision/choice.h"

#include <gtest/gtest.h>

#include <cmath>

#include "neap/error.h"
#include "precision/codec_testing.h"
#include "precision/variance.h"

namespace neap::precision {
namespace {

Statistics profile(const Floats& x) { return statistics_of(x.data(), static_cast<std::int64_t>(x.size())); }
Statistics smooth(std::uint64_t seed = 1) { return profile(normal_tensor(4096, seed)); }
// One value in a group far from the others: the steps grow with it.
Statistics with_outliers(float size) {
  Floats x = normal_tensor(4096, 1);
  for (std::size_t i = 0; i < x.size(); i += 256) x[i] = size;
  return profile(x);
}

TEST(Choice, RefusesBadSettings) {
  PrecisionConfig good;
  EXPECT_NO_THROW(check(good));
  for (const double target : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    PrecisionConfig c = good;
    c.target_accuracy = target;
    EXPECT_THROW(check(c), UserError);
  }
  PrecisionConfig c = good;
  c.precision_levels.clear();
  EXPECT_THROW(check(c), UserError);
  c = good;
  c.profiling_window = 0;
  EXPECT_THROW(check(c), UserError);
  EXPECT_THROW(LevelKeeper{c}, UserError);
  c = good;
  c.profiling_granularity.batches = 0;
  EXPECT_THROW(check(c), UserError);
  c = good;
  c.profiling_granularity.layers = -1;
  EXPECT_THROW(check(c), UserError);
}

TEST(Choice, ProfilesEveryFewLayersAndBatches) {
  const PrecisionConfig c = {.profiling_granularity = {.layers = 2, .batches = 3}};
  EXPECT_TRUE(should_profile(c, 0, 0));
  EXPECT_TRUE(should_profile(c, 4, 9));
  EXPECT_FALSE(should_profile(c, 1, 9));
  EXPECT_FALSE(should_profile(c, 4, 10));
}

TEST(Choice, TableKeepsToTheLevelsAllowed) {
  PrecisionConfig c;
  EXPECT_EQ(level_by_table(c, OpClass::kProduct), Level::kInt4);
  EXPECT_EQ(level_by_table(c, OpClass::kOther), Level::kFp32);
  c.precision_levels = {Level::kFp32, Level::kInt8};
  EXPECT_EQ(level_by_table(c, OpClass::kProduct), Level::kInt8);
  EXPECT_EQ(level_by_table(c, OpClass::kRecurrent), Level::kFp32);
  c.table[static_cast<std::size_t>(OpClass::kOther)] = Level::kInt8;
  EXPECT_EQ(level_by_table(c, OpClass::kOther), Level::kInt8);
}

TEST(Choice, ThresholdTakesTheFewestBitsWithinTheTarget) {
  PrecisionConfig c;
  const Estimates e = estimates_of(smooth());
  // A normal group of 256 spans 5.6 deviations: (5.6 / 15)^2 / 6 and (5.6 / 255)^2 / 6.
  EXPECT_NEAR(e[index_of(Level::kInt4)], 0.0235, 0.003);
  EXPECT_NEAR(e[index_of(Level::kInt8)], 8.1e-5, 1e-5);
  EXPECT_LT(e[index_of(Level::kFp16)], e[index_of(Level::kBf16)]);
  for (const auto& [target, level] :
       {std::pair{0.1, Level::kInt4}, {0.01, Level::kInt8}, {1e-5, Level::kBf16}, {1e-7, Level::kFp32}}) {
    c.target_accuracy = target;
    EXPECT_EQ(level_by_threshold(c, e), level);
  }
  c.target_accuracy = 0.01;
  EXPECT_EQ(level_by_threshold(c, estimates_of(smooth(), 0.1)), Level::kInt4);
  EXPECT_EQ(level_by_threshold(c, estimates_of(smooth(), 1000)), Level::kBf16);
}

TEST(Choice, OneBitWhereOneBitIsEnough) {
  PrecisionConfig c;
  c.precision_levels = {Level::kFp32, Level::kInt8, Level::kBit};
  Floats mask = normal_tensor(4096, 1);
  for (float& v : mask) v = v > 0 ? 1.25F : 0.0F;
  c.target_accuracy = 1e-12;
  EXPECT_EQ(level_by_threshold(c, estimates_of(profile(mask))), Level::kBit);
  EXPECT_NE(level_by_threshold(c, estimates_of(smooth())), Level::kBit);
}

TEST(LevelKeeper, DefaultUntilThereIsAProfile) {
  const PrecisionConfig c = {.profiling_window = 3, .default_precision = Level::kBf16};
  LevelKeeper keeper(c);
  EXPECT_EQ(keeper.level(), Level::kBf16);
  keeper.observe(smooth());
  keeper.observe(smooth());
  EXPECT_EQ(keeper.level(), Level::kBf16);
  keeper.observe(smooth());
  EXPECT_EQ(keeper.level(), Level::kInt4);
}

// A scripted shift of the data: outliers come, and the level rises one at a time; they go, and it falls again.
TEST(LevelKeeper, FollowsTheDataUpAndDown) {
  const PrecisionConfig c = {.profiling_window = 2};
  LevelKeeper keeper(c);
  keeper.observe(smooth(1));
  keeper.observe(smooth(2));
  ASSERT_EQ(keeper.level(), Level::kInt4);
  keeper.observe(with_outliers(100));
  EXPECT_EQ(keeper.level(), Level::kInt8);
  keeper.observe(with_outliers(100));
  EXPECT_EQ(keeper.level(), Level::kInt8);
  keeper.set_sensitivity(1e6);  // even BF16 is too coarse: one level at a time
  keeper.observe(with_outliers(100));
  EXPECT_EQ(keeper.level(), Level::kBf16);
  keeper.observe(with_outliers(100));
  EXPECT_EQ(keeper.level(), Level::kFp32);
  keeper.set_sensitivity(1);
  keeper.observe(smooth(3));
  EXPECT_EQ(keeper.level(), Level::kInt8);  // the window still remembers the outliers
  keeper.observe(smooth(4));
  EXPECT_EQ(keeper.level(), Level::kInt4);
}

TEST(LevelKeeper, ExactAfterTroubleUntilAWindowIsClean) {
  for (const ChoiceMode mode : {ChoiceMode::kThreshold, ChoiceMode::kTable}) {
    const PrecisionConfig c = {.mode = mode, .profiling_window = 2};
    LevelKeeper keeper(c, OpClass::kProduct);
    keeper.observe(smooth());
    keeper.observe(smooth());
    ASSERT_EQ(keeper.level(), Level::kInt4);
    keeper.report(kInexact);
    EXPECT_EQ(keeper.level(), Level::kInt4);
    for (const unsigned flag : {kNan, kInfinite, kOverflow, kUnderflow}) {
      keeper.report(flag);
      EXPECT_EQ(keeper.level(), Level::kFp32);
      keeper.observe(smooth());
      EXPECT_EQ(keeper.level(), Level::kFp32);
      keeper.observe(smooth());
      EXPECT_EQ(keeper.level(), Level::kInt4);
    }
    for (const float bad : {std::nanf(""), INFINITY, 1e38F}) {
      Floats x = normal_tensor(4096, 1);
      x[100] = bad;
      keeper.observe(profile(x));
      EXPECT_EQ(keeper.level(), Level::kFp32);
      keeper.observe(smooth());
      keeper.observe(smooth());
      EXPECT_EQ(keeper.level(), Level::kInt4);
    }
  }
}

// Just below the target for INT4: a level is kept there, but not newly taken.
TEST(LevelKeeper, DoesNotSwing) {
  PrecisionConfig c = {.profiling_window = 1, .default_precision = Level::kInt8};
  c.target_accuracy = estimates_of(smooth())[index_of(Level::kInt4)] * 1.1;
  LevelKeeper from_above(c);
  from_above.observe(smooth());
  EXPECT_EQ(from_above.level(), Level::kInt8);
  c.default_precision = Level::kInt4;
  LevelKeeper there(c);
  there.observe(smooth());
  EXPECT_EQ(there.level(), Level::kInt4);
}

}  // namespace
}  // namespace neap::precision

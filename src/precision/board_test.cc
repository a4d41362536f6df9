#include "precision/board.h"

#include <gtest/gtest.h>

#include <limits>

#include "neap/error.h"
#include "precision/codec.h"
#include "precision/codec_testing.h"
#include "precision/variance.h"

namespace neap::precision {
namespace {

constexpr std::int64_t kElements = 64 * 256;

Statistics smooth(std::uint64_t seed = 1) {
  const Floats x = normal_tensor(kElements, seed);
  return statistics_of(x.data(), kElements);
}

// One value in each group is far out: its steps are twenty times as wide as they were.
Statistics with_outliers() {
  Floats x = normal_tensor(kElements, 2);
  for (std::size_t i = 0; i < x.size(); i += 251) x[i] = 120;
  return statistics_of(x.data(), kElements);
}

std::vector<BoardTensor> tensors(std::size_t count, double reach = 1) {
  std::vector<BoardTensor> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(
        {.elements = kElements, .op_class = OpClass::kNorm, .reach = reach, .layer = static_cast<std::int64_t>(i)});
  }
  return out;
}

void profile(LevelBoard& board, const Statistics& statistics, int times = 1) {
  for (int k = 0; k < times; ++k) {
    for (std::size_t i = 0; i < board.size(); ++i) board.observe(i, statistics);
    board.settle();
  }
}

TEST(Board, StartsAtTheDefaultAndStaysThereUntilTheWindowIsFull) {
  LevelBoard board({.profiling_window = 3, .default_precision = Level::kInt8}, tensors(2, 0.1));
  EXPECT_EQ(board.level(0), Level::kInt8);
  profile(board, smooth(), 2);
  EXPECT_EQ(board.level(0), Level::kInt8);
  profile(board, smooth());
  EXPECT_EQ(board.level(0), Level::kInt4);
}

TEST(Board, ProfilesTheFirstWindowAndThenNowAndThen) {
  const LevelBoard board({.profiling_granularity = {.layers = 2, .batches = 10}, .profiling_window = 3}, tensors(4));
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 1; step <= 30; ++step) {
    if (board.is_profile_step(step)) steps.push_back(step);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 3, 10, 20, 30}));
  EXPECT_TRUE(board.is_profiled(2, 10));
  EXPECT_FALSE(board.is_profiled(1, 10)) << "of a layer in between";
}

// All together stay within the target, although each by itself could take fewer bits.
TEST(Board, BitsAreDistributedWithinOneTotal) {
  const Statistics s = smooth();
  const double int4 = estimates_of(s)[index_of(Level::kInt4)];
  LevelBoard board({.target_accuracy = 4.5 * int4 / 0.9, .profiling_window = 1}, tensors(10));
  profile(board, s, 2);
  int coarse = 0;
  for (std::size_t i = 0; i < board.size(); ++i) coarse += board.level(i) == Level::kInt4 ? 1 : 0;
  EXPECT_EQ(coarse, 4);
  EXPECT_LE(board.total_error(), board.config().target_accuracy);
  // The optimum for the same items and total.
  AllocationItem item{.elements = kElements, .variance = estimates_of(s)};
  item.variance[index_of(Level::kBit)] = std::numeric_limits<double>::infinity();
  const std::vector<AllocationItem> items(10, item);
  const auto best = allocate_exactly(items, board.config().precision_levels, 0.9 * board.config().target_accuracy);
  ASSERT_TRUE(best);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < board.size(); ++i) bytes += encoded_bytes(board.level(i), kElements);
  EXPECT_LE(static_cast<double>(bytes), 1.05 * static_cast<double>(best->bytes));
}

TEST(Board, TheSensitiveGetMoreBits) {
  const Statistics s = smooth();
  const double int4 = estimates_of(s)[index_of(Level::kInt4)];
  LevelBoard board({.target_accuracy = 5.5 * int4 / 0.8, .profiling_window = 1}, tensors(6));
  board.set_sensitivity(3, 4);
  profile(board, s, 2);
  for (std::size_t i = 0; i < board.size(); ++i) {
    EXPECT_EQ(board.level(i), i == 3 ? Level::kInt8 : Level::kInt4) << i;
  }
}

// A scripted shift: outliers come and go, and the levels with them.
TEST(Board, LevelsFollowTheDataUpAndDown) {
  LevelBoard board({.target_accuracy = 0.1, .profiling_window = 2}, tensors(2, 0.5));
  profile(board, smooth(), 3);
  EXPECT_EQ(board.level(0), Level::kInt4);
  profile(board, with_outliers(), 1);
  EXPECT_LT(board.level(0), Level::kInt4) << "up at once";
  profile(board, smooth(), 1);
  EXPECT_LT(board.level(0), Level::kInt4) << "not down on one profile";
  profile(board, smooth(), 3);
  EXPECT_EQ(board.level(0), Level::kInt4) << "down again";
}

TEST(Board, TroubleKeepsATensorExactUntilAWindowIsClean) {
  LevelBoard board({.profiling_window = 2}, tensors(2, 0.1));
  profile(board, smooth(), 3);
  board.report(1, kOverflow);
  EXPECT_TRUE(board.settle());
  EXPECT_EQ(board.level(1), Level::kFp32);
  EXPECT_NE(board.level(0), Level::kFp32);
  profile(board, smooth(), 1);
  EXPECT_EQ(board.level(1), Level::kFp32);
  profile(board, smooth(), 2);
  EXPECT_NE(board.level(1), Level::kFp32);
  Floats x = normal_tensor(kElements, 1);
  x[7] = std::nanf("");
  board.observe(0, statistics_of(x.data(), kElements));
  board.settle();
  EXPECT_EQ(board.level(0), Level::kFp32) << "a profile shows NaN";
}

TEST(Board, ATableNeedsNoProfile) {
  LevelBoard board({.mode = ChoiceMode::kTable}, tensors(1));
  EXPECT_EQ(board.level(0), kDefaultTable[static_cast<std::size_t>(OpClass::kNorm)]);
  profile(board, with_outliers(), 5);
  EXPECT_EQ(board.level(0), kDefaultTable[static_cast<std::size_t>(OpClass::kNorm)]);
}

TEST(Board, RefusesBadSettings) {
  EXPECT_THROW(LevelBoard({.target_accuracy = 0}, {}), UserError);
  EXPECT_THROW(LevelBoard({.precision_levels = {}}, {}), UserError);
  EXPECT_THROW(LevelBoard({.profiling_window = 0}, {}), UserError);
}

// Before there is a profile, reports say what normal values would add.
TEST(Board, ErrorsAreAssumedUntilTheyAreKnown) {
  for (const Level level : {Level::kFp16, Level::kBf16, Level::kInt8, Level::kInt4}) {
    EXPECT_NEAR(assumed_variance(level) / relative_variance(level, smooth()), 1, 0.1) << name(level);
  }
  LevelBoard board({.profiling_window = 4}, tensors(2, 0.5));
  EXPECT_EQ(board.error(0), assumed_variance(Level::kInt8) * 0.5);
  EXPECT_EQ(board.total_error(), 2 * board.error(0));
  const double assumed = board.error(0);
  profile(board, smooth());
  EXPECT_NEAR(board.error(0) / assumed, 1, 0.1);
}

TEST(Board, WhatIsWrittenIsReadToTheBit) {
  const PrecisionConfig config{.target_accuracy = 0.02, .profiling_window = 2};
  LevelBoard board(config, tensors(3, 0.3));
  profile(board, smooth(), 3);
  board.set_sensitivity(1, 1.0 / 3);
  board.observe(2, with_outliers());
  board.report(0, kNan);
  board.settle();
  WordWriter out;
  board.write(out);
  LevelBoard other(config, tensors(3, 0.3));
  WordReader in(out.text());
  other.read(in);
  EXPECT_TRUE(in.is_good() && in.is_at_end());
  WordWriter again;
  other.write(again);
  EXPECT_EQ(again.text(), out.text());
  for (LevelBoard* b : {&board, &other}) profile(*b, smooth(7), 2);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(other.level(i), board.level(i));
    EXPECT_EQ(other.error(i), board.error(i));
    EXPECT_EQ(other.sensitivity(i), board.sensitivity(i));
  }
}

TEST(Board, DamagedWordsAreSeen) {
  LevelBoard board({}, tensors(1));
  WordWriter out;
  board.write(out);
  for (const std::string& bad : {std::string(), out.text().substr(0, 20), "9" + out.text(), "x" + out.text()}) {
    WordReader in(bad);
    board.read(in);
    EXPECT_FALSE(in.is_good()) << bad.substr(0, 30);
  }
}

}  // namespace
}  // namespace neap::precision

#include "train/schedule.h"

#include <gtest/gtest.h>

#include "neap/error.h"

namespace neap {
namespace {

TEST(Schedule, ConstantStays) {
  EXPECT_DOUBLE_EQ(learning_rate(0.5, 1, 100, {}), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(0.5, 100, 100, {}), 0.5);
}

TEST(Schedule, WarmupRisesLinearly) {
  const ScheduleOptions o{.warmup = 10};
  EXPECT_DOUBLE_EQ(learning_rate(1, 1, 100, o), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(1, 10, 100, o), 1);
  EXPECT_DOUBLE_EQ(learning_rate(1, 11, 100, o), 1);
}

TEST(Schedule, CosineFallsToTheFloor) {
  const ScheduleOptions o{.name = "cosine", .floor = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(1, 1, 100, o), 1);
  EXPECT_NEAR(learning_rate(1, 51, 100, o), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate(1, 101, 100, o), 0.1, 1e-12);
}

TEST(Schedule, LinearFalls) {
  const ScheduleOptions o{.name = "linear"};
  EXPECT_DOUBLE_EQ(learning_rate(1, 26, 100, o), 0.75);
}

TEST(Schedule, StepMultiplies) {
  const ScheduleOptions o{.name = "step", .every = 10, .factor = 0.5};
  EXPECT_DOUBLE_EQ(learning_rate(1, 10, 100, o), 1);
  EXPECT_DOUBLE_EQ(learning_rate(1, 11, 100, o), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(1, 21, 100, o), 0.25);
}

TEST(Schedule, ParsesItsText) {
  const ScheduleOptions o = parse_schedule("cosine:warmup=100,floor=0.1");
  EXPECT_EQ(o.name, "cosine");
  EXPECT_EQ(o.warmup, 100);
  EXPECT_DOUBLE_EQ(o.floor, 0.1);
}

TEST(Schedule, RefusesNonsense) {
  for (const char* text : {"", "cosin", "cosine:warmup", "cosine:warmup=x", "cosine:floor=2", "step:every=0",
                           "step:factor=-1", "cosine:warmup=-1", "cosine:depth=1", "cosine:every=5", "linear:factor=2",
                           "constant:floor=0.5", "step:floor=0.5"}) {
    EXPECT_THROW(parse_schedule(text), UserError) << text;
  }
}

}  // namespace
}  // namespace neap

#include "train/budget_control.h"

#include <gtest/gtest.h>

#include "neap/train.h"
#include "train/run_testing.h"

namespace neap {
namespace {

constexpr BudgetBase kBase = {.state_bytes = 1000, .store_all_bytes = 3000, .min_bytes = 1500};

std::optional<std::int64_t> largest_after(std::optional<std::int64_t> first, const std::string& schedule, int steps) {
  BudgetControl control(kBase, first, std::nullopt, schedule);
  for (int i = 1; i <= steps; ++i) control.advance(i);
  return control.largest();
}

TEST(BudgetControl, KnowsTheLargestBudgetThatAStepHad) {
  EXPECT_EQ(largest_after(2000, "", 3), 2000);
  EXPECT_EQ(largest_after(2000, "3:1600", 5), 2000);
  EXPECT_EQ(largest_after(2000, "3:2500,4:1600", 5), 2500);
  EXPECT_EQ(largest_after(2000, "1:1600", 2), 1600) << "no step had the first one";
  EXPECT_EQ(largest_after(2000, "6:2500", 5), 2000) << "it is still to come";
  EXPECT_EQ(largest_after(1000, "", 1), 1500) << "a run goes on at the minimum";
  EXPECT_EQ(largest_after(2000, "", 0), 2000) << "the first step is to have it";
}

TEST(BudgetControl, WithoutABudgetThereIsNoLargest) {
  EXPECT_EQ(largest_after(std::nullopt, "", 2), std::nullopt);
  EXPECT_EQ(largest_after(std::nullopt, "3:2000", 5), std::nullopt) << "two steps had none";
  EXPECT_EQ(largest_after(std::nullopt, "1:2000", 5), 2000);
}

TEST(BudgetControl, WhatIsRefusedWasNoStepsBudget) {
  BudgetControl control(kBase, 2000, std::nullopt, "2:2500");
  control.advance(1);
  EXPECT_TRUE(control.advance(2));
  control.hold_at(2100);  // there is no memory for more
  control.advance(3);
  EXPECT_EQ(control.largest(), 2100);
}

TEST(BudgetControl, ALoweredBudgetDoesNotContradictThePeak) {
  TrainOptions options;
  options.model = "gpt-mini:layers=1,width=32,heads=2";
  options.steps = 4;
  options.batch = 4;
  options.length = 32;
  options.threads = 1;
  options.budget = "100%";
  options.budget_schedule = "3:min";
  const testing::Record r = testing::run(options);
  EXPECT_EQ(r.summary.violations, 0);
  EXPECT_GT(r.summary.peak_bytes, r.summary.budget_bytes) << "from before";
  EXPECT_EQ(r.summary.largest_budget_bytes, r.steps[0].budget_bytes);
  EXPECT_LE(r.summary.peak_bytes, r.summary.largest_budget_bytes);
}

}  // namespace
}  // namespace neap

#include "report/json.h"

#include <gtest/gtest.h>

namespace neap {
namespace {

TEST(ReportJson, WhatIsNotKnownIsNull) {
  const Json step = to_json(StepReport{.step = 1, .loss = 2});
  EXPECT_TRUE(step["predicted_ms"].is_null());
  EXPECT_EQ(to_json(StepReport{.predicted_ms = 1.5})["predicted_ms"], 1.5);
  const Json idle = to_json(Summary{});
  EXPECT_TRUE(idle["loss_last"].is_null());
  EXPECT_TRUE(idle["median_step_ms"].is_null());
  EXPECT_TRUE(idle["budget_bytes"].is_null());
  EXPECT_TRUE(idle["largest_budget_bytes"].is_null());
}

TEST(ReportJson, OfARunHasItsLossTimeAndBudgets) {
  Summary s;
  s.steps = 3;
  s.median_step_ms = 2.5;
  s.budget_bytes = 10;
  s.largest_budget_bytes = 30;
  const Json ran = to_json(s);
  EXPECT_EQ(ran["loss_last"], 0.0) << "a loss of nothing is one";
  EXPECT_EQ(ran["median_step_ms"], 2.5);
  EXPECT_EQ(ran["budget_bytes"], 10);
  EXPECT_EQ(ran["largest_budget_bytes"], 30);
}

}  // namespace
}  // namespace neap

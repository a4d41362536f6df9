// What a run tells when it has ended.
#include <gtest/gtest.h>

#include "neap/train.h"
#include "train/run_testing.h"

namespace neap {
namespace {

TrainOptions tight() {
  TrainOptions out = {.model = "gpt-mini:layers=2,width=64,heads=2", .steps = 10, .batch = 4, .length = 32};
  out.threads = 1;
  out.synchronous_planning = true;
  out.budget = "60%";
  out.validation = 0.2;
  return out;
}

TEST(SummaryOfARun, AnEvaluationBehindTheLastStepChangesNothing) {
  const TrainOptions options = tight();
  Trainer trainer(options);
  while (trainer.step() < options.steps) trainer.advance();
  const Summary before = trainer.summary();
  const auto exact_ms = trainer.oracle_step_ms();
  const std::size_t advice = trainer.advice().size();
  trainer.evaluate();
  const Summary after = trainer.summary();
  EXPECT_GT(before.predicted_step_ms, 0);
  EXPECT_EQ(after.predicted_step_ms, before.predicted_step_ms);
  EXPECT_EQ(after.saved_bytes, before.saved_bytes);
  EXPECT_TRUE(exact_ms.has_value());
  EXPECT_EQ(trainer.oracle_step_ms(), exact_ms);
  EXPECT_EQ(trainer.advice().size(), advice);
}

TEST(SummaryOfARun, TellsOfTheShapeThatCameLast) {
  TrainOptions options = tight();
  options.validation = 0;
  options.budget.clear();
  options.length_schedule = "1:32,4:16";
  const testing::Record run = testing::run(options);
  options.length_schedule = "1:32";
  EXPECT_LT(run.summary.saved_bytes, testing::run(options).summary.saved_bytes);
}

}  // namespace
}  // namespace neap

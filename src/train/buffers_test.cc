// Where buffers lie and when spilled tensors come back: settings that no result depends on.
#include <gtest/gtest.h>

#include "neap/error.h"
#include "neap/train.h"

namespace neap {
namespace {

TrainOptions small() { return {.model = "gpt-mini:layers=3,width=64,heads=2", .steps = 3, .batch = 2, .length = 32}; }

std::string hash_of(const TrainOptions& options) {
  Trainer trainer(options);
  for (std::int64_t i = 0; i < options.steps; ++i) trainer.advance();
  EXPECT_EQ(trainer.summary().violations, 0);
  return trainer.summary().weights_hash;
}

TEST(Buffers, FirstFitTakesMoreBytesForTheSameBits) {
  TrainOptions o = small();
  const PlanReport best = plan_training(o);
  const std::string bits = hash_of(o);
  o.buffers = "first-fit";
  const PlanReport first = plan_training(o);
  EXPECT_GT(first.peak_bytes, best.peak_bytes);
  EXPECT_EQ(first.lower_bound_bytes, best.lower_bound_bytes);
  EXPECT_EQ(hash_of(o), bits);
  o.buffers = "worst";
  EXPECT_THROW(plan_training(o), UserError);
}

TEST(Prefetch, HidesTransfersBehindCalls) {
  TrainOptions o{.model = "gpt-mini:layers=3,width=128,heads=2", .steps = 2, .batch = 8, .length = 64};
  o.policy = "spill";
  o.host_ram = 64 << 20;
  o.budget = "60%";
  const PlanReport ahead = plan_training(o);
  const std::string bits = hash_of(o);
  o.prefetch = false;
  const PlanReport late = plan_training(o);
  EXPECT_TRUE(ahead.feasible && late.feasible);
  EXPECT_LT(ahead.predicted_step_ms, late.predicted_step_ms);
  EXPECT_EQ(hash_of(o), bits);
}

}  // namespace
}  // namespace neap

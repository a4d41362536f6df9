// Changes while a run goes on: how soon it is as good as one that begins in the new condition. Times are the machine's,
// so what is compared is what the simulator reckons with the times that the run has measured.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "neap/train.h"

namespace neap {
namespace {

constexpr const char* kModel = "gpt-mini:layers=4,width=128,heads=4,dropout=0.1";

TrainOptions options_of(const std::string& policy, const std::string& budget, std::int64_t steps) {
  TrainOptions out{.model = kModel, .policy = policy};
  out.budget = budget;
  out.batch = 4;
  out.length = 64;
  out.steps = steps;
  out.guard = true;
  out.synchronous_planning = true;
  return out;
}

std::vector<StepReport> run(const TrainOptions& options, Summary* summary = nullptr) {
  Trainer trainer(options);
  std::vector<StepReport> out;
  while (trainer.step() < options.steps) out.push_back(trainer.advance());
  if (summary != nullptr) *summary = trainer.summary();
  return out;
}

// Part of a step that goes into computing again.
double recomputed(const StepReport& s) { return s.predicted_ms > 0 ? s.recomputed_ms / s.predicted_ms : 1; }

// Of a run that begins in the condition; what a busy machine makes of the measured times counts in.
double allowed(const TrainOptions& oracle) { return 1.3 * recomputed(run(oracle).back()) + 0.02; }

TEST(Scenario, TheBudgetIsHalvedAndRestored) {
  TrainOptions options = options_of("adaptive", "100%", 36);
  Summary stored;
  run(options, &stored);
  options.budget_schedule = "12:50%,24:100%";
  Summary summary;
  const std::vector<StepReport> steps = run(options, &summary);
  EXPECT_EQ(summary.violations, 0);
  EXPECT_EQ(summary.weights_hash, stored.weights_hash);
  EXPECT_LE(recomputed(steps[22]), allowed(options_of("oracle", "50%", 10)));
  EXPECT_GT(static_cast<double>(steps[22].peak_bytes), 0.9 * static_cast<double>(*steps[22].budget_bytes));
  for (const std::size_t i : {10, 25, 35}) {
    EXPECT_GT(static_cast<double>(steps[i].peak_bytes), 0.99 * static_cast<double>(stored.store_all_bytes)) << i;
  }
  EXPECT_LT(steps[35].recomputed_ms, 0.5 * steps[22].recomputed_ms);
}

TEST(Scenario, TheLengthIsDoubled) {
  TrainOptions options = options_of("adaptive", "50%", 24);
  options.length_schedule = "1:32,10:64";
  Summary summary;
  const std::vector<StepReport> steps = run(options, &summary);
  EXPECT_EQ(summary.violations, 0);
  EXPECT_EQ(steps[8].length, 32);
  EXPECT_EQ(steps[9].length, 64);
  EXPECT_LE(recomputed(steps[23]), allowed(options_of("oracle", "50%", 10)));
}

// With plans made beside the run, as users have it.
TEST(Scenario, SteeringCostsNextToNothingAndTheSimulatorKnowsTheTime) {
  TrainOptions options{.model = "gpt-mini:layers=3", .policy = "adaptive"};
  options.budget = "60%";
  options.batch = 2;
  options.length = 64;
  options.steps = 100;
  Summary summary;
  const std::vector<StepReport> steps = run(options, &summary);
  EXPECT_LE(summary.steering_share, 0.001);
  EXPECT_GT(summary.steering_share, 0);
  EXPECT_GT(summary.plan_swaps, 0);
  std::vector<double> ratios;
  for (std::size_t i = 12; i < steps.size(); ++i) ratios.push_back(steps[i].step_ms / steps[i].predicted_ms);
  std::nth_element(ratios.begin(), ratios.begin() + 44, ratios.end());
  EXPECT_NEAR(ratios[44], 1, 0.15);  // under 0.02 undisturbed
}

}  // namespace
}  // namespace neap

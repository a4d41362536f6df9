// Several shapes, plans and budgets in one run.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "core/file_testing.h"
#include "core/random.h"
#include "neap/error.h"
#include "neap/train.h"
#include "plan/plan.h"
#include "train/budget_control.h"
#include "train/call_times.h"
#include "train/drift.h"
#include "train/run_testing.h"
#include "train/step_list.h"

namespace neap {
namespace {

TrainOptions tiny(std::string_view model, std::int64_t steps = 10) {
  TrainOptions out{.model = std::string(model), .steps = steps, .batch = 4, .length = 64, .seed = 5};
  out.synchronous_planning = true;
  out.threads = 1;  // small steps: barriers would take longer than the work
  return out;
}

constexpr const char* kLstm = "lstm-lm:hidden=64,vocab=64,dropout=0.1";
constexpr const char* kGru = "gru-lm:hidden=64,vocab=64";
constexpr const char* kGpt = "gpt-mini:layers=2,width=64,heads=2,dropout=0.1";
constexpr const char* kBert = "bert-mini:layers=2,width=64,heads=2,vocab=64,dropout=0.1";

using testing::Record;
using testing::run;

TEST(VaryingLengths, BatchesDifferAndEachFitsTheBudgetToTheSameBits) {
  for (const char* model : {kLstm, kGru, kGpt, kBert}) {
    TrainOptions options = tiny(model, 12);
    options.lengths = "varying";
    const Record stored = run(options);
    std::set<std::int64_t> lengths;
    for (const StepReport& s : stored.steps) {
      lengths.insert(s.length);
      EXPECT_TRUE(s.length % 16 == 0 && s.length <= 64) << s.length;
      EXPECT_LT(s.tokens, s.length * 4);
    }
    EXPECT_GE(lengths.size(), 2U) << model;
    options.policy = "spill";
    options.guard = true;
    for (const char* budget : {"min", "min+10%", "min+30%"}) {
      options.budget = budget;
      const Record spilled = run(options);
      EXPECT_EQ(spilled.summary.weights_hash, stored.summary.weights_hash) << model << " " << budget;
      EXPECT_EQ(spilled.summary.violations, 0);
      for (const StepReport& s : spilled.steps) EXPECT_LE(s.peak_bytes, *s.budget_bytes) << model << " " << budget;
    }
  }
}

// Sequences of 11 time steps in batches of `length`.
std::vector<float> losses_padded_to(const char* model, std::int64_t length, const char* lengths = "varying") {
  TrainOptions options = tiny(model);
  options.length = length;
  options.lengths = lengths;
  Trainer trainer(open_model(model), options, [&](std::string_view input, std::span<std::byte> dst) {
    const bool is_target = input == "targets";
    for (std::size_t i = 0; i < dst.size() / 4; ++i) {
      const auto row = static_cast<std::int32_t>(i) / static_cast<std::int32_t>(length);
      const auto at = static_cast<std::int32_t>(i) % static_cast<std::int32_t>(length);
      const std::int32_t token = at < 11 ? (7 * row + 3 * at + (is_target ? 3 : 0)) % 50 : is_target ? -100 : 0;
      std::memcpy(dst.data() + 4 * i, &token, 4);
    }
  });
  std::vector<float> out;
  for (int i = 0; i < 5; ++i) out.push_back(trainer.advance().loss);
  return out;
}

// A length between two buckets is a shape of its own, and may need more than the next bucket.
TEST(VaryingLengths, FitMissesNoBucketThatFits) {
  TrainOptions options = tiny(kLstm);
  options.lengths = "varying";
  const auto model = open_model(kLstm);
  const auto needs = [&](std::int64_t length) {
    options.length = length;
    return plan_training(model, options).min_budget_bytes;
  };
  for (const std::int64_t length : {16, 48, 80}) {
    TrainOptions asked = options;
    asked.budget = std::to_string(needs(length));
    const FitReport found = fit_training(model, asked, "length");
    EXPECT_EQ(found.largest % 16, 0);
    EXPECT_GE(found.largest, length);
    EXPECT_LE(needs(found.largest), found.budget_bytes);
    EXPECT_GT(needs(found.largest + 16), found.budget_bytes);
    EXPECT_EQ(found.next_bytes, needs(found.largest + 16));
  }
}

// But for rounding: sums have other parts.
TEST(VaryingLengths, PaddingChangesNoLoss) {
  constexpr const char* kPlainBert = "bert-mini:layers=2,width=64,heads=2,vocab=64";
  for (const char* model : {"lstm-lm:hidden=64,vocab=64", kGru, "gpt-mini:layers=2,width=64,heads=2", kPlainBert}) {
    const std::vector<float> close = losses_padded_to(model, 11);
    const std::vector<float> padded = losses_padded_to(model, 48);
    for (std::size_t i = 0; i < close.size(); ++i) EXPECT_NEAR(close[i], padded[i], 2e-5) << model << " " << i;
    EXPECT_LT(close[4], close[0]);
  }
  const float seen = losses_padded_to(kPlainBert, 48, "fixed")[4];
  EXPECT_GT(std::abs(seen - losses_padded_to(kPlainBert, 11)[4]), 1e-3) << "an encoder sees what nobody hides";
}

TEST(VaryingLengths, ResumedInTheMiddleGivesTheBitsOfAnUnbrokenRun) {
  const testing::TempDir folder;
  TrainOptions options = tiny(kLstm, 9);
  options.lengths = "varying";
  options.length_schedule = "6:32";
  const Record whole = run(options);
  options.checkpoint = folder / "run";
  {
    Trainer first(options);
    for (int i = 0; i < 4; ++i) first.advance();
    first.checkpoint();
    first.advance();  // lost
  }
  options.resume = true;
  const Record rest = run(options);
  EXPECT_EQ(rest.steps.size(), 5U);
  EXPECT_EQ(rest.summary.weights_hash, whole.summary.weights_hash);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(rest.steps[i].length, whole.steps[i + 4].length);
    EXPECT_EQ(rest.steps[i].tokens, whole.steps[i + 4].tokens);
  }
  options.lengths = "fixed";
  testing::expect_user_error([&] { Trainer{options}; }, {"data"});
}

TEST(VaryingLengths, JumpWhereTheScheduleSays) {
  TrainOptions options = tiny(kGpt, 6);
  options.length_schedule = "1:16,4:40";
  const Record r = run(options);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(r.steps[static_cast<std::size_t>(i)].length, i < 3 ? 16 : 40) << i;
  EXPECT_LT(r.steps[0].peak_bytes, r.steps[5].peak_bytes);
}

// The mean over all time steps, padding included.
class MeanOfTokens final : public Model {
 public:
  std::string name() const override { return "mean"; }
  void build(Builder& g, const BuildRequest& request) const override {
    const Value tokens = g.input("tokens", DType::kI32, {request.batch, 16});
    const Value table = g.parameter("table", {8, 4}, Init::normal(1));
    const Value x = g("embedding", {table, tokens});
    g.output("loss", g("mse", {x, g("mul", {x, g.scalar(0)})}));
  }
};

TEST(VaryingLengths, NeedAModelThatTakesPadding) {
  TrainOptions options{.lengths = "varying"};
  testing::expect_user_error([&] { plan_training(std::make_shared<MeanOfTokens>(), options); }, {"mean", "padding"});
  options.model = "mlp";
  testing::expect_user_error([&] { plan_training(options); }, {"mlp", "no sequences"});
  options = tiny(kGpt);
  options.length_schedule = "1:65";
  testing::expect_user_error([&] { plan_training(options); }, {"--length-schedule", "65"});
}

TEST(VaryingLengths, TheMinimumIsThatOfTheLongestAtLeast) {
  TrainOptions options = tiny(kLstm);
  options.policy = "spill";
  const PlanReport fixed = plan_training(options);
  options.lengths = "varying";
  const PlanReport varying = plan_training(options);
  EXPECT_GE(varying.min_budget_bytes, fixed.min_budget_bytes);
  EXPECT_EQ(varying.store_all_bytes, fixed.store_all_bytes);
}

// Plans are swapped at random steps; no bit of the result knows.
TEST(Budgets, ChangedAtRandomStepsChangeNoBit) {
  TrainOptions options = tiny(kLstm, 20);
  options.lengths = "varying";
  const Record stored = run(options);
  options.policy = "spill";
  for (const bool synchronous : {true, false}) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      options.synchronous_planning = synchronous;
      RandomStream random(seed);
      Trainer trainer(options);
      while (trainer.step() < options.steps) {
        constexpr const char* kBudgets[] = {"min", "min+20%", "70%", "90%", "100%", "1GiB"};
        if (random.below(3) == 0) trainer.set_budget(kBudgets[random.below(std::size(kBudgets))]);
        const StepReport s = trainer.advance();
        EXPECT_LE(s.peak_bytes, s.budget_bytes.value_or(kNoBudget));
      }
      EXPECT_EQ(trainer.summary().weights_hash, stored.summary.weights_hash) << synchronous << " " << seed;
      EXPECT_EQ(trainer.summary().violations, 0);
      EXPECT_GT(trainer.summary().plan_swaps, 0);
    }
  }
}

TEST(Budgets, HalvedAndRestoredThePeakFollowsAndThePagesGo) {
  TrainOptions options = tiny("lstm-lm:hidden=128,vocab=64", 12);
  options.batch = 16;
  const Record stored = run(options);
  options.policy = "spill";
  options.budget_schedule = "5:min,9:100%";
  options.guard = true;
  Trainer trainer(options);
  const std::int64_t least = trainer.summary().min_budget_bytes;
  const std::int64_t all = trainer.summary().store_all_bytes;
  ASSERT_LT(least + (2 << 20), all);
  while (trainer.step() < options.steps) {
    const StepReport s = trainer.advance();
    const bool is_small = s.step >= 5 && s.step < 9;
    EXPECT_EQ(s.peak_bytes, is_small ? least : all) << s.step;
    EXPECT_EQ(s.budget_bytes.value_or(all), is_small ? least : all) << s.step;
    EXPECT_LE(trainer.resident_bytes(), (is_small ? least : all) + 4096) << s.step;
    EXPECT_TRUE(is_small || trainer.resident_bytes() > least + (1 << 20)) << s.step;
  }
  EXPECT_EQ(trainer.summary().weights_hash, stored.summary.weights_hash);
}

TEST(Budgets, BelowTheMinimumARunGoesOnAtTheMinimumAndSaysSo) {
  TrainOptions options = tiny(kLstm, 4);
  options.policy = "spill";
  options.budget_schedule = "2:1KiB,4:100%";
  const Record r = run(options);
  EXPECT_TRUE(r.steps[0].note.empty());
  EXPECT_NE(r.steps[1].note.find("minimum"), std::string::npos) << r.steps[1].note;
  EXPECT_TRUE(r.steps[2].note.empty());
  EXPECT_EQ(r.steps[2].budget_bytes, r.summary.min_budget_bytes);
  EXPECT_EQ(r.summary.violations, 0);
  options.budget_schedule = "1:1KiB";
  EXPECT_THROW(Trainer{options}, DoesNotFit);
}

TEST(Budgets, NonsenseIsRefused) {
  TrainOptions options = tiny(kGpt);
  for (const char* text : {"5", "5:", ":1GiB", "0:1GiB", "-1:1GiB", "5:lots", "5:1GiB,4:1GiB", "5:1GiB,5:2GiB",
                           "x:1GiB", "5:1GiB,", ",", "5:1GiB;6:2GiB", "5:-1", "5:150%%"}) {
    options.budget_schedule = text;
    testing::expect_user_error([&] { Trainer{options}; }, {"--budget-schedule"});
  }
  Trainer trainer(tiny(kGpt));
  testing::expect_user_error([&] { trainer.set_budget("lots"); }, {"lots"});
  testing::expect_user_error([&] { trainer.set_budget(""); }, {"budget"});
}

// A plan made with guesses gives way to one made with measured times, without anybody waiting for it.
TEST(Steering, PlansAgainWhenTimesAreKnown) {
  TrainOptions options = tiny("lstm-lm:hidden=128,vocab=64", 6);
  options.batch = 16;
  options.policy = "spill";
  options.budget = "min+10%";
  options.spill_write_rate = options.spill_read_rate = 3e8;
  const Record r = run(options);
  options.synchronous_planning = false;
  const Record beside = run(options);
  EXPECT_EQ(r.summary.weights_hash, beside.summary.weights_hash);
  EXPECT_GT(beside.summary.steering_share, 0);
  EXPECT_LT(beside.summary.steering_share, 0.05);
}

// The simulator's word stands before a step runs: no byte off, and a time as soon as calls have been timed.
TEST(Steering, SaysBeforeAStepWhatItTakes) {
  TrainOptions options = tiny("gpt-mini:layers=2,width=64,heads=2", 12);
  options.policy = "adaptive";
  options.budget = "60%";
  Trainer trainer(options);
  for (int i = 0; i < 12; ++i) {
    const StepReport s = trainer.advance();
    EXPECT_EQ(s.peak_bytes, trainer.plan().peak_bytes) << i;
    EXPECT_EQ(s.predicted_ms > 0, i >= 2) << i;  // the second step is the first that is timed
    EXPECT_LT(s.recomputed_ms, s.predicted_ms + 1e-9) << i;
    EXPECT_EQ(s.recomputed_ms > 0, i >= 2) << i;
  }
  EXPECT_GT(trainer.summary().predicted_step_ms, 0);
}

// Nobody waits for the best plan within a budget that has shrunk: one that is quickly made runs until it comes.
TEST(Steering, AShrunkBudgetHoldsAtOnceAndTheBetterPlanFollows) {
  TrainOptions options = tiny("gpt-mini:layers=3,width=64,heads=2", 10);
  options.policy = "adaptive";
  Trainer trainer(options);
  const std::int64_t state = trainer.summary().state_bytes;
  const std::int64_t rest = trainer.summary().store_all_bytes - state;
  for (int i = 0; i < 3; ++i) trainer.advance();
  trainer.set_budget(std::to_string(state + rest * 8 / 10));
  const std::int64_t first = trainer.advance().peak_bytes;
  EXPECT_LE(first, state + rest * 8 / 10);
  std::int64_t last = 0;
  while (trainer.step() < options.steps) last = trainer.advance().peak_bytes;
  EXPECT_LE(last, state + rest * 8 / 10);
  EXPECT_GT(last, first) << "what fits is kept in the end";
  EXPECT_GE(trainer.summary().plan_swaps, 2);
}

TEST(CallTimes, AreMediansThatLeaveADisturbedStepOut) {
  Plan plan;
  plan.instructions.push_back({.action = Action::kRun, .node = {0}});
  plan.instructions.push_back({.action = Action::kRecompute, .node = {0}});
  CallTimes times;
  std::vector<double> ms = {7, 9};  // the second node does not run
  times.write(ms);
  EXPECT_EQ(ms, (std::vector<double>{7, 9}));
  const double measured[] = {3, 40, 2, 1, 50};
  const double medians[] = {3, 3, 3, 2, 3};  // of an even number, the smaller of the two in the middle
  for (std::size_t i = 0; i < CallTimes::kSteps; ++i) {
    EXPECT_FALSE(times.is_complete());
    times.add(plan, {measured[i], 1000}, 2);
    times.write(ms);
    EXPECT_EQ(ms, (std::vector<double>{medians[i], 9})) << i;
  }
  EXPECT_TRUE(times.is_complete());
  times.clear();
  EXPECT_TRUE(times.is_empty());
}

TEST(Pace, IsTheMedianOfTheLastSteps) {
  Pace pace;
  EXPECT_EQ(pace.median(), 1);
  for (const double ratio : {1.2, 9.0, 1.1}) pace.add(ratio);
  EXPECT_EQ(pace.median(), 1.2);
  for (int i = 0; i < 9; ++i) pace.add(2);
  EXPECT_EQ(pace.median(), 2);
  pace.clear();
  EXPECT_EQ(pace.median(), 1);
}

TEST(Drift, IsSeenSoonAndNoiseIsNot) {
  Drift drift;
  RandomStream random(1);
  const auto noise = [&] { return 1 + 0.05 * random.normal(); };
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(drift.add(1.3 * noise(), 1)) << i;  // a constant error is no drift
  int steps = 0;
  while (steps < 100 && !drift.add(2.6 * noise(), 1)) ++steps;
  EXPECT_LE(steps, 3);
  for (int i = 0; i < 30; ++i) EXPECT_FALSE(drift.add(2.6 * noise(), 1)) << i;
  steps = 0;
  while (steps < 100 && !drift.add(1.3 * noise(), 1)) ++steps;
  EXPECT_LE(steps, 5);
}

TEST(BudgetControl, FollowsScheduleAndRequests) {
  BudgetControl b({.state_bytes = 100, .store_all_bytes = 1100, .min_bytes = 300}, std::nullopt, 2000,
                  "3:50%,5:200,7:5000");
  EXPECT_FALSE(b.advance(1));
  EXPECT_FALSE(b.effective());
  EXPECT_TRUE(b.advance(3));
  EXPECT_EQ(b.effective(), 600);
  EXPECT_FALSE(b.advance(4));
  EXPECT_TRUE(b.advance(5));
  EXPECT_EQ(b.asked(), 200);
  EXPECT_EQ(b.effective(), 300);
  EXPECT_EQ(b.ask("min+100%"), 600);
  EXPECT_TRUE(b.advance(6));
  EXPECT_EQ(b.effective(), 600);
  EXPECT_TRUE(b.advance(9));
  EXPECT_EQ(b.effective(), 2000);  // no more than there is room for
}

TEST(StepList, KeepsOrder) {
  EXPECT_EQ(parse_step_list("3:a,10:b", "--x"), (std::vector<StepValue>{{3, "a"}, {10, "b"}}));
  EXPECT_TRUE(parse_step_list("", "--x").empty());
}

}  // namespace
}  // namespace neap

// Batches that change their size while a run goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "core/file_testing.h"
#include "neap/error.h"
#include "neap/train.h"
#include "train/resume_testing.h"
#include "train/run_testing.h"
#include "train/step_shapes.h"

namespace neap {
namespace {

using testing::expect_user_error;

constexpr const char* kLstm = "lstm-lm:hidden=64,vocab=64,dropout=0.1";
constexpr const char* kSmallGpt = "gpt-mini:layers=1,width=32,heads=2,dropout=0.1";
constexpr const char* kGpt = "gpt-mini:layers=2,width=64,heads=2,dropout=0.1";

TrainOptions tiny(std::string_view model, std::string_view schedule, std::int64_t steps = 8) {
  TrainOptions out{.model = std::string(model), .steps = steps, .batch = 4, .length = 32, .seed = 5};
  out.batch_schedule = schedule;
  out.synchronous_planning = true;
  out.threads = 1;  // small steps: barriers would take longer than the work
  return out;
}

using testing::Record;
using testing::run;

std::vector<std::int64_t> batches_of(const Record& r) {
  std::vector<std::int64_t> out;
  for (const StepReport& s : r.steps) out.push_back(s.batch);
  return out;
}

std::string refusal_of(const TrainOptions& options) {
  try {
    Trainer{options};
  } catch (const DoesNotFit& e) {
    return e.what();
  }
  return "";
}

TEST(BatchSchedule, StepsHaveTheBatchThatItSays) {
  const Record r = run(tiny(kGpt, "3:8,5:2", 6));
  EXPECT_EQ(batches_of(r), (std::vector<std::int64_t>{4, 4, 8, 8, 2, 2}));
  for (const StepReport& s : r.steps) EXPECT_EQ(s.tokens, s.batch * 32);
  EXPECT_EQ(r.summary.batch, 2);
  EXPECT_GT(r.steps[2].peak_bytes, r.steps[1].peak_bytes);
  EXPECT_LT(r.steps[4].peak_bytes, r.steps[1].peak_bytes);
  EXPECT_EQ(batches_of(run(tiny(kGpt, "1:2", 2))), (std::vector<std::int64_t>{2, 2}));
}

TEST(BatchSchedule, ThePeakIsThatOfStepsThatWereMade) {
  const Record r = run(tiny(kGpt, "4:1,7:16", 5));
  EXPECT_EQ(r.summary.peak_bytes, r.steps[0].peak_bytes) << "the batch of 16 never came";
  const Summary before = Trainer(tiny(kGpt, "4:1,7:16", 5)).summary();
  EXPECT_GT(before.peak_bytes, r.summary.peak_bytes) << "what waits for the first step is made for all of them";
}

// With weights that stay as they are the loss of a step says which samples it has seen: a batch of 6 is three of 2.
TEST(BatchSchedule, DataGoOnWhereTheyAre) {
  for (const bool shuffle : {true, false}) {
    TrainOptions options = tiny("mlp", "", 24);
    options.batch = 2;
    options.optimizer.lr = 0;
    options.shuffle = shuffle;
    const Record twos = run(options);
    options.batch_schedule = "3:6,5:4";
    options.steps = 10;
    const Record changed = run(options);
    const std::vector<std::size_t> parts = {1, 1, 3, 3, 2, 2, 2, 2, 2, 2};
    std::size_t at = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      double mean = 0;
      for (std::size_t k = 0; k < parts[i]; ++k) mean += static_cast<double>(twos.steps.at(at++).loss);
      EXPECT_NEAR(changed.steps[i].loss, mean / static_cast<double>(parts[i]), 1e-5) << shuffle << " " << i;
    }
  }
}

TEST(BatchSchedule, EveryShapeFitsTheBudgetToTheSameBits) {
  for (const char* model : {kLstm, kGpt}) {
    TrainOptions options = tiny(model, "3:8,6:2", 9);
    options.length_schedule = "5:16";
    const Record stored = run(options);
    options.guard = true;
    for (const char* policy : {"adaptive", "spill"}) {
      for (const char* budget : {"min", "min+20%", "min+50%"}) {
        options.policy = policy;
        options.budget = budget;
        const Record r = run(options);
        EXPECT_EQ(r.summary.weights_hash, stored.summary.weights_hash) << model << " " << policy << " " << budget;
        EXPECT_EQ(r.summary.violations, 0);
        EXPECT_EQ(batches_of(r), batches_of(stored));
        for (const StepReport& s : r.steps) EXPECT_LE(s.peak_bytes, *s.budget_bytes) << model << " " << budget;
      }
    }
  }
}

TEST(BatchSchedule, SpillsOfEachShapeGiveTheSameBits) {
  TrainOptions options = tiny(kLstm, "3:16,6:8", 9);
  options.lengths = "varying";
  const Record stored = run(options);
  options.policy = "spill";
  options.budget = "min+10%";
  options.synchronous_planning = false;
  const Record r = run(options);
  EXPECT_EQ(r.summary.weights_hash, stored.summary.weights_hash);
  std::vector<std::int64_t> spilled(9);
  std::transform(r.steps.begin(), r.steps.end(), spilled.begin(), [](const auto& s) { return s.spilled_bytes; });
  EXPECT_GT(*std::max_element(spilled.begin() + 2, spilled.begin() + 5), 0) << "batches of 16 do not fit otherwise";
}

TEST(BatchSchedule, GoesTogetherWithOtherBudgets) {
  TrainOptions options = tiny(kGpt, "3:8,5:4", 8);
  const Record stored = run(options);
  options.budget_schedule = "2:min,4:60%,6:100%,7:min+5%";
  const Record r = run(options);
  EXPECT_EQ(r.summary.weights_hash, stored.summary.weights_hash);
  EXPECT_EQ(r.summary.violations, 0);
}

TEST(BatchSchedule, ResumedAcrossAChangeGivesTheBitsOfAnUnbrokenRun) {
  for (const char* schedule : {"3:8,5:2", "6:8,7:2", "2:2,4:6"}) {  // the checkpoint is behind step 4
    TrainOptions options = tiny(kLstm, schedule);
    testing::expect_same_bits_resumed(options);
    options.model = kGpt;
    options.budget = "min+20%";
    options.accumulate = 2;
    testing::expect_same_bits_resumed(options);
  }
}

TEST(BatchSchedule, ResumedWithFewerBitsToo) {
  TrainOptions options = tiny(kSmallGpt, "3:8,6:2", 10);
  options.precision.tolerance = "default";
  options.precision.profiling_batches = 2;
  testing::expect_same_bits_resumed(options);
}

// Where a run stands in its data follows from the schedule.
TEST(BatchSchedule, ACheckpointOfAnotherScheduleIsRefused) {
  const testing::TempDir folder;
  TrainOptions options = tiny("mlp", "3:8");
  options.checkpoint = folder / "run";
  Trainer(options).checkpoint();
  options.resume = true;
  EXPECT_NO_THROW(Trainer{options});
  options.batch_schedule = "4:8";
  expect_user_error([&] { Trainer{options}; }, {"batch", "4, 8 from step 3 on", "4, 8 from step 4 on"});
}

TEST(BatchSchedule, FewerBitsDoNotDependOnWhenPlansCome) {
  TrainOptions options = tiny(kSmallGpt, "4:8,20:2", 24);
  options.precision.tolerance = "default";
  options.precision.profiling_batches = 2;
  options.budget = "min+5%";
  const Record waited = run(options);
  EXPECT_GT(waited.steps[18].encoded_bytes, 0) << "batches of 8 do not fit otherwise";
  options.synchronous_planning = false;
  const Record beside = run(options);
  EXPECT_EQ(waited.summary.weights_hash, beside.summary.weights_hash);
  EXPECT_EQ(beside.summary.violations, 0);
}

TEST(BatchSchedule, PartsAreOfEveryBatch) {
  TrainOptions options = tiny("mlp", "3:12", 5);
  const Record whole = run(options);
  for (const bool is_split : {true, false}) {
    TrainOptions parts = options;
    (is_split ? parts.split : parts.accumulate) = 4;
    const Record stored = run(parts);
    EXPECT_EQ(batches_of(stored), batches_of(whole));
    for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(stored.steps[i].loss, whole.steps[i].loss, 1e-4) << i;
    parts.budget = "min";
    EXPECT_EQ(run(parts).summary.weights_hash, stored.summary.weights_hash);
  }
  options.accumulate = 3;
  expect_user_error([&] { Trainer{options}; }, {"--accumulate 3", "batch of 4"});
  options.batch_schedule = "1:12,3:8";
  expect_user_error([&] { Trainer{options}; }, {"--accumulate 3", "batch of 8", "step 3"});
  options.accumulate = 1;
  options.split = 3;
  expect_user_error([&] { Trainer{options}; }, {"--split 3", "batch of 8", "step 3"});
}

TEST(BatchSchedule, AsManyPartsAsTheBudgetNeedsDivideAll) {
  TrainOptions options = tiny(kGpt, "3:12", 4);
  options.split = 4;
  const std::int64_t least = plan_training(options).min_budget_bytes;
  options.split = 0;
  options.budget = std::to_string(least);
  EXPECT_EQ(run(options).summary.split, 4) << "of 3, 6 and 12 a batch of 4 has no parts";
}

TEST(BatchSchedule, BelowTheMinimumOfABatchToComeIsRefused) {
  TrainOptions options = tiny(kGpt, "");
  options.batch = 2;
  const std::int64_t least = plan_training(options).min_budget_bytes;
  options.budget = std::to_string(least);
  EXPECT_EQ(refusal_of(options), "");
  options.batch_schedule = "40:16";  // behind the last step of this call: --resume may go on to it
  const std::string why = refusal_of(options);
  EXPECT_NE(why.find("16 samples of length 32 need, from step 40 on"), std::string::npos) << why;
  EXPECT_FALSE(plan_training(options).feasible);
  options.budget = std::to_string(plan_training(options).min_budget_bytes);
  EXPECT_EQ(refusal_of(options), "");
}

// More samples of fewer time steps each: nobody needs room for more samples of the former length.
TEST(BatchSchedule, TheMinimumIsThatOfShapesThatCome) {
  TrainOptions options = tiny(kGpt, "", 6);
  options.batch = 32;
  const PlanReport both = plan_training(options);
  options.batch = 4;
  const PlanReport first = plan_training(options);
  options.batch_schedule = "4:32";
  options.length_schedule = "4:4";
  const PlanReport changing = plan_training(options);
  EXPECT_LT(changing.min_budget_bytes, both.min_budget_bytes);
  EXPECT_GE(changing.min_budget_bytes, first.min_budget_bytes);
  EXPECT_GE(changing.store_all_bytes, first.store_all_bytes);
  const Record stored = run(options);
  EXPECT_EQ(stored.steps[5].tokens, 32 * 4);
  options.length_schedule = "4:16";  // now the second shape is the larger, and samples are longer than it
  const Record larger = run(options);
  options.budget = "min";
  const Record tight = run(options);
  EXPECT_EQ(tight.summary.weights_hash, larger.summary.weights_hash);
  EXPECT_EQ(tight.steps[0].length, 32);
  EXPECT_EQ(tight.steps[5].length, 16);
}

TEST(BatchSchedule, DecisionsAreFollowed) {
  const testing::TempDir folder;
  TrainOptions options = tiny(kGpt, "3:8,5:4", 7);
  options.budget = "50%";
  options.decisions = folder / "d.jsonl";
  Record first;
  {
    Trainer trainer(options);
    while (trainer.step() < options.steps) first.steps.push_back(trainer.advance());
    trainer.finish_decisions();
    first.summary = trainer.summary();
  }
  options.replay = std::exchange(options.decisions, {});
  const Record again = run(options);
  EXPECT_EQ(again.summary.weights_hash, first.summary.weights_hash);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(again.steps[i].peak_bytes, first.steps[i].peak_bytes) << i;
  options.batch_schedule = "4:8";
  expect_user_error([&] { run(options); }, {"--replay", "step 3", "4 samples", "8 samples"});
}

TEST(BatchSchedule, ApplicationsFeedAsMuchAsItSays) {
  TrainOptions options = tiny(kGpt, "2:6,3:2", 4);
  options.length_schedule = "3:16";
  std::vector<std::size_t> sizes;
  Trainer trainer(open_model(kGpt), options, [&](std::string_view input, std::span<std::byte> dst) {
    if (input == "tokens") sizes.push_back(dst.size());
    std::fill(dst.begin(), dst.end(), std::byte{});
  });
  for (int i = 0; i < 4; ++i) trainer.advance();
  EXPECT_EQ(sizes, (std::vector<std::size_t>{4 * 32 * 4, 6 * 32 * 4, 2 * 16 * 4, 2 * 16 * 4}));
}

TEST(BatchSchedule, AnApplicationThatFailsIsAskedForTheSameAgain) {
  const TrainOptions options = tiny(kGpt, "2:6,3:2", 3);
  std::vector<std::size_t> sizes;
  int asked = 0;
  Trainer trainer(open_model(kGpt), options, [&](std::string_view input, std::span<std::byte> dst) {
    if (++asked == 3) throw std::runtime_error("nothing there yet");  // the first of the second step
    if (input == "tokens") sizes.push_back(dst.size());
    std::fill(dst.begin(), dst.end(), std::byte{});
  });
  trainer.advance();
  EXPECT_THROW(trainer.advance(), std::runtime_error);
  for (int i = 0; i < 2; ++i) trainer.advance();
  EXPECT_EQ(sizes, (std::vector<std::size_t>{4 * 32 * 4, 6 * 32 * 4, 2 * 32 * 4}));
}

TEST(BatchSchedule, EvaluationStaysAsItIs) {
  TrainOptions options = tiny("mlp", "", 1);
  options.validation = 0.1;
  options.optimizer.lr = 0;
  Trainer plain(options);
  options.batch_schedule = "2:16";
  options.steps = 3;
  Trainer changing(options);
  for (int i = 0; i < 3; ++i) changing.advance();
  const EvalReport expected = plain.evaluate();
  EXPECT_EQ(changing.evaluate().loss, expected.loss);
  EXPECT_EQ(changing.evaluate().samples, expected.samples);
}

TEST(BatchSchedule, NonsenseIsRefused) {
  for (const char* text : {"5", "5:", ":8", "0:8", "-1:8", "5:lots", "5:0", "5:-8", "5:8,4:8", "5:8,5:16", "x:8",
                           "5:8,", ",", "5:8;6:2", "5:1.5", "5:99999999999"}) {
    expect_user_error([&] { Trainer{tiny("mlp", text)}; }, {"--batch-schedule"});
  }
  expect_user_error([] { Trainer{tiny("mlp", "5:2000000")}; }, {"2000000", "step 5", "samples"});
  TrainOptions options = tiny(kLstm, "5:8");
  options.carry_state = true;
  expect_user_error([&] { Trainer{options}; }, {"--carry-state", "--batch-schedule"});
  options.carry_state = false;
  options.budget = "1GiB";
  expect_user_error([&] { fit_training(open_model(kLstm), options, "batch"); }, {"--batch-schedule"});
}

TEST(StepShapes, AreBothSchedulesTogether) {
  TrainOptions options{.batch = 4};
  options.batch_schedule = "3:8,9:2";
  options.length_schedule = "3:16,5:32";
  const auto shapes = step_shapes(options, 64, 48);
  std::vector<std::int64_t> got;
  for (const StepShape& s : shapes) got.insert(got.end(), {s.step, s.batch, s.length});
  EXPECT_EQ(got, (std::vector<std::int64_t>{1, 4, 48, 3, 8, 16, 5, 8, 32, 9, 2, 32}));
  EXPECT_EQ(shape_at(shapes, 2).batch, 4);
  EXPECT_EQ(shape_at(shapes, 3).batch, 8);
  EXPECT_EQ(shape_at(shapes, 1000).batch, 2);
  options = {};
  EXPECT_EQ(step_shapes(options, 64, 0).at(0).batch, 64);
}

}  // namespace
}  // namespace neap

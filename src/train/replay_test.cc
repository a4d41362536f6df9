// What a run that follows another's decisions does with budgets of its own.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

#include "core/file_testing.h"
#include "neap/error.h"
#include "neap/train.h"
#include "train/run_testing.h"

namespace neap {
namespace {

using testing::expect_user_error;

class ReplayedRun : public ::testing::Test {
 protected:
  // Records a run at half of its activations' memory, then at three quarters.
  ReplayedRun() {
    options_ = {.model = "gpt-mini:layers=2,width=64,heads=2", .steps = 6, .batch = 4, .length = 32};
    options_.threads = 1;
    options_.synchronous_planning = true;
    options_.decisions = folder_ / "d.jsonl";
    TrainOptions recorded = options_;
    recorded.budget = "50%";
    recorded.budget_schedule = "4:75%";
    Trainer trainer(recorded);
    while (trainer.step() < recorded.steps) first_.steps.push_back(trainer.advance());
    trainer.finish_decisions();
    first_.summary = trainer.summary();
    options_.replay = std::exchange(options_.decisions, {});
  }

  testing::TempDir folder_;
  TrainOptions options_;
  testing::Record first_;
};

TEST_F(ReplayedRun, HasTheBudgetsThatWereRecorded) {
  const testing::Record again = testing::run(options_);
  for (std::size_t i = 0; i < again.steps.size(); ++i) {
    EXPECT_EQ(again.steps[i].budget_bytes, first_.steps[i].budget_bytes) << i;
    EXPECT_EQ(again.steps[i].peak_bytes, first_.steps[i].peak_bytes) << i;
  }
  EXPECT_EQ(again.summary.weights_hash, first_.summary.weights_hash);
}

TEST_F(ReplayedRun, NeverGoesAboveABudgetOfItsOwn) {
  options_.budget = std::to_string(*first_.steps[0].budget_bytes);
  Trainer trainer(options_);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(trainer.advance().budget_bytes, first_.steps[0].budget_bytes);
  ASSERT_GT(first_.steps[5].peak_bytes, *first_.steps[0].budget_bytes) << "every recorded plan fits";
  expect_user_error(
      [&] {
        while (trainer.step() < options_.steps) trainer.advance();
      },
      {"--replay", "more than the budget"});
  EXPECT_TRUE(trainer.is_whole()) << "what was trained before can be saved";
}

TEST_F(ReplayedRun, TellsOfNoPeakThatOnlyItsOwnPlanWouldHave) {
  options_.budget = "100%";
  const testing::Record again = testing::run(options_);
  std::int64_t most = 0;
  for (const StepReport& step : again.steps) most = std::max(most, step.peak_bytes);
  EXPECT_EQ(again.summary.peak_bytes, most);
  EXPECT_EQ(again.summary.peak_bytes, first_.summary.peak_bytes);
  EXPECT_EQ(again.summary.weights_hash, first_.summary.weights_hash);
}

// Their budget may be below this run's minimum, which would be no reason that helps.
TEST_F(ReplayedRun, SaysOfWhichBatchesARecordingIs) {
  const auto refuses = [&](std::initializer_list<std::string_view> words) {
    expect_user_error([&] { const Trainer trainer(options_); }, words);
  };
  options_.batch = 64;
  refuses({"--replay", "4 samples of length 32", "64 samples of length 32"});
  options_.batch = 4;
  options_.length = 128;
  refuses({"4 samples of length 32", "4 samples of length 128"});
  options_.length = 16;
  refuses({"4 samples of length 32", "4 samples of length 16"});
  options_.length = 32;
  const std::string model = std::exchange(options_.model, "gpt-mini:layers=6,width=256,heads=2");
  refuses({"layers=2", "layers=6"});
  options_.model = model;
  options_.policy = "store-all";  // has no plan within the recorded budget
  EXPECT_THROW(const Trainer trainer(options_), DoesNotFit) << "of these very batches";
  options_.optimize = "off";
  refuses({"--replay", "numerics"});
}

TEST_F(ReplayedRun, TakesNoOtherBudgetWhileItRuns) {
  Trainer trainer(options_);
  trainer.advance();
  expect_user_error([&] { trainer.set_budget("min"); }, {"--replay", "takes no other"});
  while (trainer.step() < options_.steps) trainer.advance();
  EXPECT_EQ(trainer.summary().weights_hash, first_.summary.weights_hash);
}

// Files of this process may not grow: as on a full disk.
class FullDisk {
 public:
  FullDisk() {
    ::getrlimit(RLIMIT_FSIZE, &former_);
    rlimit none = former_;
    none.rlim_cur = 0;
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &former_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit former_ = {};
  void (*handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

TEST(DecisionsOnAFullDisk, LoseNothingThatIsTrained) {
  const testing::TempDir folder;
  TrainOptions options = {.model = "mlp:hidden=16", .steps = 3, .batch = 4};
  const testing::Record undisturbed = testing::run(options);
  options.decisions = folder / "d.jsonl";
  Trainer trainer(options);
  std::string note;
  {
    const FullDisk full;
    note = trainer.advance().note;
    EXPECT_TRUE(trainer.is_whole());
  }
  EXPECT_NE(note.find("training goes on without it"), std::string::npos) << note;
  while (trainer.step() < options.steps) EXPECT_EQ(trainer.advance().note, "");
  EXPECT_EQ(trainer.summary().weights_hash, undisturbed.summary.weights_hash);
  expect_user_error([&] { trainer.finish_decisions(); }, {"d.jsonl"});
}

}  // namespace
}  // namespace neap

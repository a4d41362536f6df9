#include "train/tuner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "neap/error.h"
#include "optimize/fuse_elementwise.h"
#include "optimize/optimize_testing.h"
#include "train/tuner_testing.h"

namespace neap {
namespace {

TEST(Tuner, RejectsWhatGivesOtherResultsAndNeverTriesItAgain) {
  TunedNet net({&kWrong});
  net.steps(200);
  EXPECT_EQ(net.tuner->report().rejected, std::vector<std::string>{"wrong"});
  EXPECT_EQ(net.says("other results"), 1);
  ASSERT_EQ(net.notes.size(), 1U);
  EXPECT_NE(net.notes[0].find("optimization wrong gives other results"), std::string::npos) << net.notes[0];
  EXPECT_EQ(&net.tuner->current(), &net.base());
  EXPECT_EQ(net.tuner->report().trials, 0);
}

// What was wrong from the first step on is found by the same comparison, and the step goes on without it.
TEST(Tuner, ThrowsOutWhatWasWrongFromTheStart) {
  TunedNet net({&kWrong}, kFree, 1000, &kWrong);
  ASSERT_EQ(count_of(net.tuner->current().graph(), "abs"), 1);
  net.steps(200);
  EXPECT_EQ(net.tuner->report().rejected, std::vector<std::string>{"wrong"});
  EXPECT_EQ(count_of(net.tuner->current().graph(), "abs"), 0);
  EXPECT_EQ(net.says("other results"), 1);
  EXPECT_EQ(net.tuner->report().adopted, 0);
}

// With two that run from the start it can only be said that one of them is wrong.
TEST(Tuner, NamesAllThatMayBeWrong) {
  const Optimization both{
      .name = "both", .what = "", .makes = "", .is_bitwise = true, .apply = [](const Graph& g, const Where& w) {
        return fuse_elementwise(wrongly(g, w), w);
      }};
  TunedNet net({&kWrong, &kFusedElementwise}, kFree, 1000, &both);
  net.steps(60);
  EXPECT_FALSE(net.runs_fused());
  EXPECT_EQ(count_of(net.tuner->current().graph(), "abs"), 0);
}

// One that breaks the graph, or has no kernel, is left out like one that gives other results.
TEST(Tuner, SurvivesWhatCannotBeMade) {
  const Optimization broken{
      .name = "broken", .what = "", .makes = "", .is_bitwise = true, .apply = [](const Graph&, const Where&) -> Graph {
        throw UserError("no kernel for this");
      }};
  TunedNet net({&broken, &kFusedElementwise});
  net.steps(100, fused_takes(0.1));
  EXPECT_EQ(net.tuner->report().rejected, std::vector<std::string>{"broken"});
  EXPECT_EQ(net.says("no kernel for this"), 1) << net.all_said();
}

constexpr double kStep = 1e-3;  // of a variance that is about 1
Graph with_other_rounding(const Graph& graph, const Where& where) {
  Graph out = graph;
  for (std::size_t i = 0; i < out.nodes.size(); ++i) {
    const bool is_here = out.nodes[i].op->name == "layer_norm" && (where.empty() || where[i] >= 0);
    if (is_here) out.nodes[i].attrs.set("epsilon", 1e-5 + kStep);
  }
  return out;
}

TEST(Tuner, AllowsErrorsWithinTheToleranceOfAnOptimizationAndNoneBeyond) {
  for (const bool is_within : {true, false}) {
    const Optimization rough{
        .name = "rough", .what = "", .makes = "", .tolerance = is_within ? 0.1 : 1e-6, .apply = with_other_rounding};
    TunedNet net({&rough});
    net.steps(60);
    const TuningReport report = net.tuner->report();
    EXPECT_EQ(report.rejected.size(), is_within ? 0U : 1U) << net.all_said();
    EXPECT_EQ(report.trials > 0, is_within);
    EXPECT_EQ(net.says("is allowed"), is_within ? 0 : 1) << net.all_said();
  }
}

TEST(Tuner, RehearsalsAndTrialsChangeNoBitOfTheState) {
  TunedNet wrong({&kWrong});
  TunedNet fused({&kFusedElementwise});
  TunedNet plain({});
  wrong.steps(60);
  fused.steps(60, fused_takes(0.1));
  plain.steps(60);
  EXPECT_GT(fused.tuner->report().trials, 0);
  EXPECT_EQ(wrong.state(), plain.state());
  EXPECT_EQ(fused.state(), plain.state());
}

TEST(Tuner, KeepsWhatIsFasterAndSaysWhy) {
  TunedNet net({&kFusedElementwise});
  net.steps(60, fused_takes(0.1));
  EXPECT_TRUE(net.runs_fused());
  EXPECT_EQ(net.tuner->report().adopted, 1);
  EXPECT_TRUE(net.says("tried"));
  EXPECT_TRUE(net.says("it stays"));
  ASSERT_EQ(net.notes.size(), 1U);
  EXPECT_NE(net.notes[0].find("it stays"), std::string::npos) << net.notes[0];
  const TuningReport report = net.tuner->report();
  EXPECT_TRUE(std::any_of(report.pieces.begin(), report.pieces.end(),
                          [](const TuningReport::Piece& piece) { return piece.strategy == "fuse"; }));
  EXPECT_EQ(report.pieces.size(), 2U);
}

TEST(Tuner, LeavesWhatIsSlower) {
  TunedNet net({&kFusedElementwise});
  net.steps(60, fused_takes(100));
  EXPECT_FALSE(net.runs_fused());
  EXPECT_GE(net.tuner->report().trials, 1);
  EXPECT_EQ(net.tuner->report().adopted, 0);
  EXPECT_TRUE(net.notes.empty());
}

// A second a call is far below the roofline of such a small net.
TEST(Tuner, SplitsSlowPiecesWhileTrainingAndChoosesAnew) {
  TunedNet net({&kFusedElementwise},
               {.subgraphs = {.initial_granularity = 1, .window = 1, .cooldown = 0}, .trial_share = 1});
  net.steps(40, fused_takes(0.1));
  EXPECT_TRUE(net.says("split ")) << net.all_said();
  EXPECT_TRUE(net.says("of the roofline"));
  EXPECT_GT(net.tuner->report().changes, 0);
  EXPECT_GT(net.tuner->report().pieces.size(), 2U);
  net.steps(30, fused_takes(0.1));
  EXPECT_TRUE(net.runs_fused());
}

TEST(Tuner, TriesNothingThatCostsMoreThanItsShare) {
  TunedNet net({&kFusedElementwise}, {.trial_share = 0.01}, 50);
  net.steps(50);
  EXPECT_TRUE(net.log.empty());
  EXPECT_EQ(net.tuner->report().spent_ms, 0);
}

// Of a variant whose bytes a new budget does not hold nothing is left.
TEST(Tuner, FallsBackWhenTheBudgetShrinks) {
  TunedNet net({&kFusedElementwise});
  net.steps(60, fused_takes(0.1));
  ASSERT_NE(&net.tuner->current(), &net.base());
  EXPECT_EQ(&net.tuner->before(net.tuner->current().plan().peak_bytes - 1), &net.base());
}

// The arena has shrunk with a budget; when it may grow again, others have the memory: steps go on with what has room.
TEST(Tuner, FallsBackWhenOthersHaveTheMemory) {
  TunedNet net({&kFusedElementwise});
  net.steps(60, fused_takes(0.1));
  ASSERT_TRUE(net.runs_fused());
  const std::int64_t least = net.base().plan().peak_bytes;
  ASSERT_GT(net.tuner->current().plan().peak_bytes, least);
  net.arena().resize(least);
  net.arena().left = least;
  net.steps(60, fused_takes(0.1));
  EXPECT_FALSE(net.runs_fused());
  EXPECT_EQ(net.arena().bytes(), least);
  TunedNet undisturbed({});
  undisturbed.steps(120);
  EXPECT_EQ(net.state(), undisturbed.state());
}

// What has no room is not tried.
TEST(Tuner, TriesNothingThatOthersLeaveNoMemoryFor) {
  TunedNet net({&kFusedElementwise});
  net.arena().left = net.base().plan().peak_bytes;
  net.steps(60, fused_takes(0.1));
  EXPECT_FALSE(net.runs_fused());
  EXPECT_EQ(net.tuner->report().trials, 0);
  EXPECT_EQ(net.arena().bytes(), net.arena().left);
}

struct Trained {
  std::string losses;
  std::vector<std::string> log;
  Summary summary;
};

Trained train(const std::string& optimize, double trial_share) {
  TrainOptions options;
  options.steps = 5000;  // of which it takes a few: this is what trials are reckoned with
  options.optimize = optimize;
  options.tuning.trial_share = trial_share;
  options.threads = 1;
  options.synchronous_planning = true;
  Trainer trainer(std::make_shared<Chain>(), options);
  Trained out;
  while (trainer.step() < 70) {
    const StepReport report = trainer.advance();
    out.losses += fmt::format("{:a} ", report.loss);
    out.log.insert(out.log.end(), report.tuning.begin(), report.tuning.end());
  }
  out.summary = trainer.summary();
  return out;
}

// Whatever was tried and chosen by the clock of this machine: losses and weights are those of a run without any of it.
TEST(Tuner, ATrainingRunKeepsItsBits) {
  const Trained off = train("off", 1);
  const Trained fixed = train("all", 1);
  const Trained tuned = train("adaptive", 1);
  EXPECT_GT(tuned.summary.tuning.trials, 0);
  EXPECT_FALSE(tuned.log.empty());
  EXPECT_FALSE(tuned.summary.tuning.pieces.empty());
  EXPECT_EQ(tuned.losses, off.losses);
  EXPECT_EQ(tuned.summary.weights_hash, off.summary.weights_hash);
  EXPECT_EQ(fixed.summary.weights_hash, off.summary.weights_hash);
  EXPECT_EQ(fixed.summary.tuning.trials, 0);
  EXPECT_EQ(train("adaptive", 0).summary.tuning.trials, 0);
}

// The results of these steps are not those of one batch through one graph.
TEST(Tuner, LeavesStepsInPartsAlone) {
  TrainOptions options;
  options.steps = 5000;
  options.optimize = "adaptive";
  options.tuning.trial_share = 1;
  options.threads = 1;
  options.synchronous_planning = true;
  options.accumulate = 2;
  Trainer trainer(std::make_shared<Chain>(), options);
  for (int i = 0; i < 20; ++i) trainer.advance();
  EXPECT_TRUE(trainer.summary().tuning.pieces.empty());
}

TEST(Tuner, RefusesSettingsThatMakeNoSense) {
  EXPECT_THROW(train("adaptive", 1.5), UserError);
  EXPECT_THROW(train("off", -1), UserError);
}

}  // namespace
}  // namespace neap

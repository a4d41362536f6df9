// The tuner over a thousand steps: it holds still when nothing changes, and follows when something does.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "core/random.h"
#include "observe/ceilings.h"
#include "optimize/fuse_elementwise.h"
#include "train/subgraphs.h"
#include "train/tuner_testing.h"

namespace neap {
namespace {

// How often the same nodes were split, and how often merged, at most.
int most_changes_of_one_piece(const std::vector<std::string>& log) {
  const std::regex change("(split|merged) .*\\(nodes ([0-9]+-[0-9]+)\\)");
  std::map<std::string, int> count;
  int out = 0;
  for (const std::string& line : log) {
    std::smatch found;
    if (std::regex_search(line, found, change)) out = std::max(out, ++count[found[1].str() + found[2].str()]);
  }
  return out;
}

// A millionth of `share` of the roofline: trials cost nothing beside such steps.
FakeClock at_share(std::function<double()> share) {
  return [share = std::move(share), roofline = roofline_of(measure_ceilings())](const Graph& graph, const Node& node) {
    const OpCall call = call_of(graph, node);
    const double traffic = traffic_of(call);
    const double best_ms = std::max(flops_of(call) / roofline.flops_per_ms, traffic / roofline.rate_of(traffic));
    return 1e6 * best_ms / share();
  };
}

const SubgraphOptions kMillionth{
    .initial_granularity = 2, .performance_threshold = 0.5e-6, .merging_threshold = 0.6e-6};

// Every call hovers at the threshold below which pieces are split, and what is fused is as fast as what is not.
TEST(Tuner, DoesNotOscillateInAThousandSteps) {
  RandomStream random(7);
  TunedNet net({&kFusedElementwise}, {.subgraphs = kMillionth, .trial_share = 1});
  net.steps(1000, at_share([&] { return 0.5 * (0.9 + 0.2 * random.uniform()); }));
  const TuningReport report = net.tuner->report();
  EXPECT_GT(report.trials, 0);
  EXPECT_LE(report.adopted, 1) << net.all_said();
  EXPECT_LE(most_changes_of_one_piece(net.log), 1) << net.all_said();
  EXPECT_EQ(report.drifts, 0) << net.all_said();
}

TEST(Tuner, MergesWhatHasBecomeFastAndSaysWhy) {
  TunedNet net({&kFusedElementwise}, {.subgraphs = kMillionth, .trial_share = 1});
  net.steps(200, at_share([] { return 0.3; }));
  const std::size_t most = net.tuner->report().pieces.size();
  EXPECT_GT(net.says("of the roofline over 4 samples, below"), 0) << net.all_said();
  EXPECT_EQ(net.says("merged"), 0);
  net.steps(400, at_share([] { return 0.9; }));
  EXPECT_GT(net.says("both halves at"), 0) << net.all_said();
  EXPECT_LT(net.tuner->report().pieces.size(), most);
}

// A hog on memory bandwidth: elementwise ops wait for memory, and once instead of often where they are fused. Without
// it the fused ones are slower here.
constexpr double kHog = 10;
FakeClock beside(double hog) {
  return [hog](const Graph&, const Node& node) {
    if (is_fused(node)) return 9000 + 1000 * hog;
    const bool is_short = node.op->name == "mul" || node.op->name == "tanh" || node.op->name == "sigmoid";
    return is_short ? 1000 * hog : 1000;
  };
}

TEST(Tuner, FollowsASlowdownWithinFiftySteps) {
  TunedNet net({&kFusedElementwise});
  net.steps(200, beside(1));
  EXPECT_FALSE(net.runs_fused()) << net.all_said();
  EXPECT_EQ(net.tuner->report().drifts, 0) << net.all_said();
  net.steps(50, beside(kHog));
  EXPECT_TRUE(net.runs_fused()) << net.all_said();
  EXPECT_EQ(net.says("was usual: strategies are tried again"), 1) << net.all_said();
  net.steps(150, beside(kHog));
  EXPECT_TRUE(net.runs_fused());
  EXPECT_EQ(net.tuner->report().adopted, 1) << net.all_said();
  net.steps(50, beside(1));
  EXPECT_FALSE(net.runs_fused()) << net.all_said();
  EXPECT_EQ(net.tuner->report().adopted, 2) << net.all_said();
}

// One step in which the machine did something else is no reason for anything.
TEST(Tuner, IsNotImpressedByASingleSlowStep) {
  TunedNet net({&kFusedElementwise});
  net.steps(100, beside(1));
  net.steps(1, beside(1000));
  net.steps(50, beside(1));
  EXPECT_EQ(net.tuner->report().drifts, 0) << net.all_said();
}

// By the clock of this machine, whatever else it does.
struct RealRun {
  TuningReport report;
  std::vector<std::string> log;
};

RealRun thousand_real_steps() {
  TrainOptions options;
  options.steps = 1000;
  options.tuning.trial_share = 0.5;
  options.threads = 1;
  Trainer trainer(std::make_shared<Chain>(), options);
  RealRun out;
  while (trainer.step() < options.steps) {
    const StepReport report = trainer.advance();
    out.log.insert(out.log.end(), report.tuning.begin(), report.tuning.end());
  }
  out.report = trainer.summary().tuning;
  return out;
}

TEST(Tuner, ARealRunDoesNotOscillateInAThousandSteps) {
  RealRun run = thousand_real_steps();
  // On a machine that others have meanwhile, the first moments alone may cost half of so short a run.
  for (int attempt = 1; attempt < 4 && run.report.trials == 0; ++attempt) run = thousand_real_steps();
  std::string all;
  for (const std::string& line : run.log) all += line + "\n";
  EXPECT_GT(run.report.trials, 0) << all;
  EXPECT_LE(run.report.adopted, 1 + run.report.drifts + run.report.changes) << all;
  EXPECT_LE(most_changes_of_one_piece(run.log), 2) << all;
}

}  // namespace
}  // namespace neap

#include "train/tuner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "autodiff/optimizer.h"
#include "graph/initial.h"
#include "graph/op.h"
#include "neap/error.h"
#include "neap/layers.h"
#include "optimize/fuse_elementwise.h"

namespace neap {
namespace {

// Two layers with a chain of elementwise ops between them, long enough for fusion.
class Chain final : public Model {
 public:
  std::string name() const override { return "chain"; }
  std::int64_t batch() const override { return 64; }
  void build(Builder& g, const BuildRequest& request) const override {
    const Value x = g.input("x", DType::kF32, {request.batch, 8});
    const Value target = g.input("target", DType::kF32, {request.batch, 4});
    const Value a = linear(g, "a", x, 2048);
    const Value b = linear(g, "b", g("mul", {g("tanh", {a}), g("sigmoid", {a})}), 4);
    const Value d = g("sub", {b, target});
    g.output("loss", g("reduce_mean", {g("square", {d})}, {{"keepdims", std::int64_t{0}}}));
  }
};

// Trials at will; two pieces, forward and backward, so that no cut goes through a chain.
const TuningOptions kFree{.subgraphs = {.initial_granularity = 1}, .trial_share = 1};

// A run whose steps the test takes itself, and whose times it makes up.
class TunedNet {
 public:
  explicit TunedNet(std::vector<const Optimization*> library, TuningOptions tuning = kFree, std::int64_t steps = 1000) {
    options_.optimize = "off";
    setup_ = make_setup(std::make_shared<Chain>(), options_);
    arena_ = setup_.device->make_arena(2 * setup_.plan.peak_bytes, false);
    arena_->resize(setup_.plan.peak_bytes);
    const Graph& graph = setup_.program->graph;
    stepper_ = std::make_unique<Stepper>(setup_.shape, setup_.program, setup_.plan, layout_of(setup_.plan, graph),
                                         *setup_.device, *arena_, nullptr);
    for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
      if (is_state(graph.tensors[i].role)) {
        stepper_->executor().write({i}, initial_value(graph.tensors[i], 0).data());
      }
    }
    tuner = std::make_unique<Tuner>(
        TunedRun{.device = *setup_.device,
                 .arena = *arena_,
                 .settled = [&graph] { return graph; },
                 .base = *stepper_,
                 .put_in = [this](Stepper& s) { put_in(s); }},
        TunerOptions{.library = std::move(library), .tuning = tuning, .steps = steps, .is_synchronous = true});
  }

  // A call takes a second, far more than any real one, and a fused one `fused` of it.
  void step(double fused = 1) {
    Stepper& stepper = tuner->before(std::nullopt);
    put_in(stepper);
    stepper.executor().run();
    std::vector<double> timed;
    for (const Instruction& in : stepper.plan().instructions) {
      timed.push_back(stepper.graph().at(in.node).op->name == "fused" ? 1000 * fused : 1000);
    }
    const double ms = std::accumulate(timed.begin(), timed.end(), 0.0);
    tuner->after(ms, tuner->wants_times() ? timed : std::vector<double>{});
    for (std::string& line : tuner->take_log()) log.push_back(std::move(line));
    if (std::string note = tuner->take_note(); !note.empty()) notes.push_back(std::move(note));
  }
  void steps(int count, double fused = 1) {
    for (int i = 0; i < count; ++i) step(fused);
  }

  // All state, after the steps so far.
  std::vector<std::byte> state() const {
    std::vector<std::byte> out;
    const Graph& graph = stepper_->graph();
    for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
      if (!is_state(graph.tensors[i].role)) continue;
      std::vector<std::byte> each(static_cast<std::size_t>(graph.tensors[i].type.bytes()));
      stepper_->executor().read({i}, each.data());
      out.insert(out.end(), each.begin(), each.end());
    }
    return out;
  }
  bool runs_fused() {
    const auto& nodes = tuner->current().graph().nodes;
    return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.op->name == "fused"; });
  }
  Stepper& base() { return *stepper_; }
  bool says(std::string_view words) const {
    return std::any_of(log.begin(), log.end(), [&](const auto& line) { return line.find(words) != std::string::npos; });
  }

  std::unique_ptr<Tuner> tuner;
  std::vector<std::string> log;
  std::vector<std::string> notes;

 private:
  static void put_in(Stepper& s) {
    s.enter();
    for (const DataInput& input : s.inputs()) {
      std::vector<float> data(input.bytes / sizeof(float));
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 13) / 13 - 0.4F;
      s.executor().write(input.id, data.data());
    }
    const Hyper hyper = hyper_at(1, 0.01, {});
    s.executor().write(s.hyper(), hyper.data());
  }

  TrainOptions options_;
  Setup setup_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Stepper> stepper_;
};

// It forgets the bias of the layers.
Graph wrongly(const Graph& graph, const Where& where) {
  Graph out = graph;
  for (std::size_t i = 0; i < out.nodes.size(); ++i) {
    Node& node = out.nodes[i];
    const bool has_bias = node.op->name == "linear" && node.inputs.size() == 3;
    if (has_bias && (where.empty() || where[i] >= 0)) node.inputs[2] = {};
  }
  return out;
}
const Optimization kWrong{.name = "wrong", .what = "", .makes = "linear", .is_bitwise = true, .apply = wrongly};

TEST(Tuner, RejectsWhatGivesOtherResultsAndNeverTriesItAgain) {
  TunedNet net({&kWrong});
  net.steps(200);
  EXPECT_EQ(net.tuner->report().rejected, std::vector<std::string>{"wrong"});
  EXPECT_EQ(std::count_if(net.log.begin(), net.log.end(),
                          [](const auto& line) { return line.find("other results") != std::string::npos; }),
            1);
  ASSERT_EQ(net.notes.size(), 1U);
  EXPECT_NE(net.notes[0].find("optimization wrong gives other results"), std::string::npos) << net.notes[0];
  EXPECT_EQ(&net.tuner->current(), &net.base());
  EXPECT_EQ(net.tuner->report().trials, 0);
}

TEST(Tuner, RehearsalsAndTrialsChangeNoBitOfTheState) {
  TunedNet wrong({&kWrong});
  TunedNet fused({&kFusedElementwise});
  TunedNet plain({});
  wrong.steps(60);
  fused.steps(60, 0.1);
  plain.steps(60);
  EXPECT_GT(fused.tuner->report().trials, 1);
  EXPECT_EQ(wrong.state(), plain.state());
  EXPECT_EQ(fused.state(), plain.state());
}

TEST(Tuner, KeepsWhatIsFasterAndSaysWhy) {
  TunedNet net({&kFusedElementwise});
  net.steps(60, 0.1);
  EXPECT_TRUE(net.runs_fused());
  EXPECT_EQ(net.tuner->report().adopted, 1);
  EXPECT_TRUE(net.says("tried"));
  ASSERT_EQ(net.notes.size(), 1U);
  EXPECT_NE(net.notes[0].find("it stays"), std::string::npos) << net.notes[0];
  const TuningReport report = net.tuner->report();
  EXPECT_TRUE(std::any_of(report.pieces.begin(), report.pieces.end(),
                          [](const TuningReport::Piece& piece) { return piece.strategy == "fuse"; }));
  EXPECT_EQ(report.pieces.size(), 2U);
}

TEST(Tuner, LeavesWhatIsSlower) {
  TunedNet net({&kFusedElementwise});
  net.steps(60, 100);
  EXPECT_FALSE(net.runs_fused());
  EXPECT_GE(net.tuner->report().trials, 1);
  EXPECT_EQ(net.tuner->report().adopted, 0);
  EXPECT_TRUE(net.notes.empty());
}

// A second a call is far below the roofline of such a small net.
TEST(Tuner, SplitsSlowPiecesWhileTrainingAndChoosesAnew) {
  TunedNet net({&kFusedElementwise},
               {.subgraphs = {.initial_granularity = 1, .window = 1, .cooldown = 0}, .trial_share = 1});
  net.steps(40, 0.1);
  EXPECT_TRUE(net.says("split ")) << fmt::format("{}", fmt::join(net.log, "\n"));
  EXPECT_TRUE(net.says("of the roofline"));
  EXPECT_GT(net.tuner->report().changes, 0);
  EXPECT_GT(net.tuner->report().pieces.size(), 2U);
  net.steps(30, 0.1);
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
  net.steps(60, 0.1);
  ASSERT_NE(&net.tuner->current(), &net.base());
  EXPECT_EQ(&net.tuner->before(net.tuner->current().plan().peak_bytes - 1), &net.base());
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

TEST(Tuner, RefusesSettingsThatMakeNoSense) {
  EXPECT_THROW(train("adaptive", 1.5), UserError);
  EXPECT_THROW(train("off", -1), UserError);
}

}  // namespace
}  // namespace neap

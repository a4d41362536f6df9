#include "train/pieces.h"

#include <gtest/gtest.h>

#include <numeric>

#include "optimize/fuse_elementwise.h"
#include "optimize/vocab_loss.h"
#include "train/tuner_testing.h"

namespace neap {
namespace {

TEST(Ways, AreAllCombinationsOfAFewPasses) {
  const std::vector<Way> none = ways_of({});
  ASSERT_EQ(none.size(), 1U);
  EXPECT_EQ(none[0].name, "nothing");
  const std::vector<Way> two = ways_of({&kTiledVocabLoss, &kFusedElementwise});
  ASSERT_EQ(two.size(), 4U);
  EXPECT_EQ(two[2].name, "fuse");
  EXPECT_EQ(two[2].tolerance, 0);
  EXPECT_EQ(two[3].name, "vocab-loss+fuse");
  EXPECT_EQ(two[3].strategy, Strategy::kHybrid);
  EXPECT_EQ(two[3].tolerance, kTiledVocabLoss.tolerance);
}

TEST(Ways, OfManyPassesAreEachAloneAndAllTogether) {
  const std::vector<Way> ways =
      ways_of({&kFusedElementwise, &kFusedElementwise, &kFusedElementwise, &kFusedElementwise});
  ASSERT_EQ(ways.size(), 6U);
  EXPECT_EQ(ways[4].passes.size(), 1U);
  EXPECT_EQ(ways[5].passes.size(), 4U);
}

// Logits that take longer than 16 MiB, and an activation in front of them.
class Words final : public Model {
 public:
  std::string name() const override { return "words"; }
  std::int64_t batch() const override { return 64; }
  void build(Builder& g, const BuildRequest& request) const override {
    const Value x = g.input("x", DType::kF32, {request.batch, 8});
    const Value target = g.input("target", DType::kI32, {request.batch});
    const Value a = linear(g, "a", x, 2048);
    const Value b = linear(g, "b", g("mul", {g("tanh", {a}), g("sigmoid", {a})}), 8);
    g.output("loss", g("cross_entropy", {linear(g, "logits", b, 1 << 16), target}));
  }
};

Graph step_of(const std::string& optimize) {
  TrainOptions options;
  options.optimize = optimize;
  return make_setup(std::make_shared<Words>(), options).program->graph;
}

TEST(Pieces, SeeWhatHasBeenDoneToThemAndDoItAgain) {
  const Pieces pieces(step_of("off"), ways_of({&kTiledVocabLoss, &kFusedElementwise}), {.initial_granularity = 1});
  for (const char* optimize : {"off", "fuse", "vocab-loss", "all"}) {
    const Graph graph = step_of(optimize);
    const Graph again = pieces.rewritten(pieces.actions_of(graph));
    ASSERT_EQ(again.nodes.size(), graph.nodes.size()) << optimize;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) EXPECT_EQ(again.nodes[i].op, graph.nodes[i].op) << optimize;
  }
}

// A call that does the work of several nodes counts for each of them, and nothing is lost.
TEST(Pieces, ShareTheTimeOfWhatWasJoined) {
  TrainOptions options;
  options.optimize = "all";
  const auto setup = make_setup(std::make_shared<Words>(), options);
  const auto arena = setup.device->make_arena(setup.plan.peak_bytes, false);
  arena->resize(setup.plan.peak_bytes);
  const Stepper stepper(setup.shape, setup.program, setup.plan, layout_of(setup.plan, setup.program->graph),
                        *setup.device, *arena, nullptr);
  const Graph settled = step_of("off");
  const Pieces pieces(settled, ways_of({&kTiledVocabLoss, &kFusedElementwise}), {.initial_granularity = 1});
  std::vector<double> timed;
  for (const Instruction& in : stepper.plan().instructions) timed.push_back(is_call(in.action) ? 1.0 : 0.0);
  const std::vector<double> ms = pieces.node_ms(stepper, timed);
  EXPECT_NEAR(std::accumulate(ms.begin(), ms.end(), 0.0), std::accumulate(timed.begin(), timed.end(), 0.0), 1e-9);
  double loss_ms = 0;
  for (std::size_t i = 0; i < settled.nodes.size(); ++i) {
    const std::string_view op = settled.nodes[i].op->name;
    const bool is_loss = op == "cross_entropy" || op == "cross_entropy_grad";
    if (is_loss) {
      EXPECT_GT(ms[i], 0);
      EXPECT_LT(ms[i], 1);
      loss_ms += ms[i];
    }
  }
  EXPECT_LT(loss_ms, 1);
}

}  // namespace
}  // namespace neap

#include "policy/layers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "autodiff/autodiff.h"
#include "autodiff/optimizer.h"
#include "graph/op.h"
#include "neap/layers.h"
#include "plan/validate.h"
#include "policy/chain.h"

namespace neap {
namespace {

// Finishes a graph without any names or scopes that could give its layers away.
struct Program {
  Graph graph;
  Costs costs;
  explicit Program(Builder& g, Value x) {
    const Value loss = g("reduce_mean", {g("mul", {x, x})}, {{"keepdims", std::int64_t{0}}}, "loss");
    g.output("loss", loss);
    append_updates(g, differentiate(g, loss, g.graph().with_role(Role::kParameter)), {.name = "sgd", .lr = 0.1});
    graph = g.take();
    for (Node& node : graph.nodes) node.layer.clear();
    costs.ms.assign(graph.nodes.size(), 0.1);
  }
  PlanningProblem problem() const { return {.graph = graph, .costs = costs}; }
};

std::vector<std::size_t> sizes(const std::vector<Layer>& layers) {
  std::vector<std::size_t> out;
  for (const Layer& l : layers) out.push_back(l.nodes.size());
  return out;
}

TEST(Layers, AConvolutionKeepsItsNormAndItsActivation) {
  Builder g;
  Value x = g.input("x", DType::kF32, {2, 8, 8, 16});
  for (int i = 0; i < 4; ++i) {
    const std::string name = "c" + std::to_string(i);
    x = batch_norm(g, name + "n", conv2d(g, name, x, 16, 3, {.pad = 1}), {.relu = true});
  }
  const Program program(g, x);
  const PlanningProblem problem = program.problem();
  const Recompute r(problem);
  const std::vector<Layer> layers = find_layers(r);
  ASSERT_EQ(layers.size(), 4U);
  const std::size_t each = layers[0].nodes.size();
  EXPECT_EQ(sizes(layers), (std::vector<std::size_t>{each, each, each, each + 2})) << "the last has the loss";
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(layers[i].boundary.size(), 1U);
    EXPECT_EQ(layers[i].boundary[0], program.graph.at(layers[i].nodes.back()).outputs[0]);
    EXPECT_EQ(layers[i].boundary_bytes, 2 * 8 * 8 * 16 * 4);
    EXPECT_GT(layers[i].ms, 0.15);
  }
}

TEST(Layers, ResidualEdgesHoldABlockTogether) {
  Builder g;
  Value x = linear(g, "in", g.input("x", DType::kF32, {2, 8, 64}), 64);
  for (int i = 0; i < 5; ++i) {
    const std::string name = "b" + std::to_string(i);
    const Value h = g("gelu", {linear(g, name + "up", layer_norm(g, name + "n", x), 256)});
    x = g("add", {x, linear(g, name + "down", h, 64)});
  }
  const Program program(g, x);
  const PlanningProblem problem = program.problem();
  const Recompute r(problem);
  const std::vector<Layer> layers = find_layers(r);
  ASSERT_EQ(layers.size(), 6U);
  for (std::size_t i = 1; i + 1 < layers.size(); ++i) {
    EXPECT_EQ(program.graph.at(layers[i].nodes.back()).op->name, "add");
    EXPECT_EQ(layers[i].boundary_bytes, 2 * 8 * 64 * 4);
  }
}

TEST(Layers, EachGranularityIsAValidPlan) {
  Builder g;
  Value x = linear(g, "in", g.input("x", DType::kF32, {64, 64}), 64);
  for (int i = 0; i < 11; ++i) {
    const std::string name = "b" + std::to_string(i);
    x = g("add", {x, linear(g, name + "down", g("gelu", {linear(g, name + "up", x, 256)}), 64)});
  }
  const Program program(g, x);
  const PlanningProblem problem = program.problem();
  const Recompute r(problem);
  const std::vector<Layer> layers = find_layers(r);
  ASSERT_EQ(layers.size(), 12U);
  const auto recomputed = [&](const Granularities& granularities) {
    const Plan plan = plan_of(r, retention_of(r, layers, granularities));
    EXPECT_FALSE(validate(plan, program.graph, program.costs));
    std::size_t count = 0;
    for (const Instruction& in : plan.instructions) count += in.action == Action::kRecompute ? 1U : 0U;
    return std::pair(plan.lower_bound_bytes, count);
  };
  const auto all = recomputed(Granularities(12, kStoreAll));
  const auto each = recomputed(Granularities(12, 1));
  const auto four = recomputed(Granularities(12, 4));
  EXPECT_LT(each.first, all.first);
  EXPECT_LT(four.first, all.first);
  EXPECT_GT(each.second, all.second);
  EXPECT_GT(four.second, each.second) << "boundaries inside of a segment are made again too";
  Granularities mixed(12, kStoreAll);
  for (int i = 4; i < 8; ++i) mixed[static_cast<std::size_t>(i)] = 2;
  EXPECT_LT(recomputed(mixed).first, all.first);
  EXPECT_LT(recomputed(mixed).second, four.second);
}

TEST(Chain, OptionsKeepWhatIsDearAndSmallFirst) {
  Builder g;
  Value x = linear(g, "in", g.input("x", DType::kF32, {256, 64}), 64);
  for (int i = 0; i < 2; ++i) {
    const std::string name = "b" + std::to_string(i);
    const Value wide = g("gelu", {linear(g, name + "up", x, 512)});
    x = g("add", {x, g("tanh", {linear(g, name + "down", wide, 64)})});
  }
  Program program(g, x);
  for (std::uint32_t i = 0; i < program.graph.nodes.size(); ++i) {
    if (program.graph.nodes[i].op->name == "linear") program.costs.ms[i] = 10;
  }
  const PlanningProblem problem = program.problem();
  const Recompute r(problem);
  const std::vector<Layer> layers = find_layers(r);
  const std::vector<LayerOption> options = options_of(r, layers[1]);
  ASSERT_GE(options.size(), 3U);
  ASSERT_LE(options.size(), 8U);
  for (std::size_t i = 1; i < options.size(); ++i) {
    EXPECT_LT(options[i].bytes, options[i - 1].bytes);
    EXPECT_GT(options[i].ms, options[i - 1].ms);
  }
  EXPECT_LT(options.front().ms, 0.15) << "what store-all makes again, in one cheap pass";
  // The last but one keeps one more than the boundary: the narrow product, not the wide activation.
  const auto& kept = options[options.size() - 2].kept;
  EXPECT_TRUE(std::any_of(kept.begin(), kept.end(), [&](TensorId id) {
    return program.graph.at(id).type.bytes() == 256 * 64 * 4 &&
           program.graph.at(program.graph.at(id).producer).op->name != "add";
  }));
}

TEST(Recompute, AnOrderSaysWhatItKeeps) {
  Builder g;
  Value x = g.input("x", DType::kF32, {64, 64});
  for (int i = 0; i < 12; ++i) x = g("add", {x, g("gelu", {linear(g, "l" + std::to_string(i), x, 64)})});
  const Program program(g, x);
  const PlanningProblem problem = program.problem();
  const Recompute r(problem);
  const std::vector<Layer> layers = find_layers(r);
  for (const Retention& retention : LayerChain(r, layers).retentions()) {
    const std::vector<NodeId> order = decisions_of(r, retention).order;
    EXPECT_EQ(decisions_of(r, retention_of(r, order)).order, order);
  }
}

}  // namespace
}  // namespace neap

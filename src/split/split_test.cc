#include "split/split.h"

#include <gtest/gtest.h>

#include <functional>

#include "autodiff/autodiff.h"
#include "graph/op.h"
#include "neap/error.h"
#include "neap/layers.h"
#include "neap/recurrent.h"
#include "ops/op_check.h"
#include "split/blocks.h"
#include "split/sums.h"

namespace neap {
namespace {

constexpr std::int64_t kBatch = 8;

using Build = std::function<void(Builder&, std::int64_t batch)>;

Graph forward_of(const Build& build, std::int64_t batch) {
  Builder g;
  build(g, batch);
  return g.take();
}

// With one gradient a parameter as a result of its name.
Graph trained(Graph forward, bool in_place = false) {
  const TensorId loss = *forward.output("loss");
  const auto parameters = forward.with_role(Role::kParameter);
  Builder g(std::move(forward));
  for (const auto& [parameter, gradient] : differentiate(g, loss, parameters)) {
    g.output("d." + g.name_of(parameter), gradient);
  }
  Graph out = g.take();
  if (in_place) out = with_sums_in_place(out);
  verify(out);
  return out;
}

std::map<std::string, HostTensor> leaves_of(const Graph& graph) {
  std::map<std::string, HostTensor> out;
  std::uint64_t key = 7;
  for (const Tensor& t : graph.tensors) {
    if (t.producer || t.role == Role::kConstant) continue;
    const bool is_key = t.name == kRandomInput;
    out.emplace(t.name, is_key ? HostTensor(t.type) : random_tensor(t.type, ++key));
  }
  return out;
}

std::map<std::string, HostTensor> results_of(const Graph& graph, const std::map<std::string, HostTensor>& leaves) {
  const auto values = evaluate(graph, leaves);
  std::map<std::string, HostTensor> out;
  for (const auto& [label, id] : graph.outputs) out.emplace(label, values[id.index]);
  return out;
}

void expect_the_same(const Build& build, bool in_place = false) {
  const Graph whole = trained(forward_of(build, kBatch));
  const auto leaves = leaves_of(whole);
  const auto want = results_of(whole, leaves);
  for (const std::int64_t parts : {2, 4, 8}) {
    const Graph graph = trained(split_batch(forward_of(build, kBatch / parts), parts), in_place);
    const auto got = results_of(graph, leaves);
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [label, value] : want) {
      expect_same(got.at(label), value, 2e-5, label + " in " + std::to_string(parts) + " parts");
    }
  }
}

void build_perceptron(Builder& g, std::int64_t batch) {
  const Value x = g.input("x", DType::kF32, {batch, 6});
  const Value target = g.input("target", DType::kF32, {batch, 3});
  Value y = g("gelu", {linear(g, "first", x, 32)});
  y = g("add", {y, g("gelu", {linear(g, "second", y, 32)})});
  g.output("loss", g("mse", {linear(g, "last", y, 3), target}));
}

// A residual block with a projection; the first norm is behind a ReLU, the last has a residual.
void build_residual(Builder& g, std::int64_t batch) {
  const Value x = g.input("x", DType::kF32, {batch, 4, 4, 3});
  const Value target = g.input("target", DType::kF32, {batch, 5});
  Value y = batch_norm(g, "bn1", conv2d(g, "conv1", x, 5, 3, {.pad = 1}), {.relu = true});
  const Value side = batch_norm(g, "bn2", conv2d(g, "conv2", x, 5, 1));
  y = batch_norm(g, "bn3", conv2d(g, "conv3", y, 5, 3, {.pad = 1, .bias = true}), {.relu = true, .residual = side});
  y = g("reshape", {g("global_average_pool", {y})}, {{"shape", Shape{batch, 5}}});
  g.output("loss", g("mse", {y, target}));
}

TEST(Split, PartsGiveTheGradientsOfTheWhole) {
  expect_the_same(build_perceptron);
  expect_the_same(build_perceptron, true);
}

TEST(Split, BatchNormSeesTheWholeBatch) {
  expect_the_same(build_residual);
  expect_the_same(build_residual, true);
}

TEST(Split, DropoutDrawsAsForTheWholeBatch) {
  expect_the_same([](Builder& g, std::int64_t batch) {
    const Value x = g.input("x", DType::kF32, {batch, 12});
    const Value target = g.input("target", DType::kF32, {batch, 4});
    g.output("loss", g("mse", {linear(g, "last", dropout(g, linear(g, "first", x, 9), 0.5), 4), target}));
  });
}

std::int64_t count_of(const Graph& graph, std::string_view op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.op->name == op; });
}

TEST(Split, CountsAllRowsForRunningStatistics) {
  const Graph whole = forward_of(build_residual, kBatch);
  const Graph parts = split_batch(forward_of(build_residual, 2), 4);
  EXPECT_EQ(count_of(parts, "running_update"), 3);
  EXPECT_EQ(count_of(parts, "moments"), 12);
  EXPECT_EQ(count_of(parts, "merge_moments"), 3);
  EXPECT_EQ(count_of(parts, "batch_stats"), 0);
  for (const Node& node : whole.nodes) {
    if (node.op->name != "running_update") continue;
    for (const Node& other : parts.nodes) {
      if (other.name != node.name) continue;
      EXPECT_EQ(other.attrs.shape("count").count(), node.attrs.shape("count").count());
    }
  }
}

TEST(Split, OnePartIsTheGraphItself) {
  const Graph forward = forward_of(build_perceptron, kBatch);
  EXPECT_EQ(print(split_batch(forward, 1)), print(forward));
}

// What depends on no input is computed once.
TEST(Split, SharesWhatDependsOnNoInput) {
  const Build build = [](Builder& g, std::int64_t batch) {
    const Value x = g.input("x", DType::kF32, {batch, 4});
    const Value w = g("tanh", {g.parameter("w", {4}, Init::normal(1))});
    g.output("loss", g("reduce_mean", {g("mul", {x, w})}, {{"keepdims", std::int64_t{0}}}));
  };
  const Graph graph = split_batch(forward_of(build, 2), 4);
  EXPECT_EQ(count_of(graph, "tanh"), 1);
  EXPECT_EQ(count_of(graph, "mul"), 4 + 1);  // one makes the mean of the losses
  EXPECT_EQ(graph.at(*graph.find("x")).type.shape, (Shape{8, 4}));
}

// Three products of which each one's weight is large: the sums of two would not lie side by side.
void build_wide(Builder& g, std::int64_t batch) {
  Value x = g.input("x", DType::kF32, {batch, 64});
  for (const char* name : {"a", "b", "c"}) x = g("relu", {linear(g, name, x, 64)});
  g.output("loss", g("reduce_mean", {x}, {{"keepdims", std::int64_t{0}}}));
}

TEST(SplitBlocks, LargeWeightsAreApart) {
  const Graph few = forward_of(build_wide, 1);
  EXPECT_EQ(find_cuts(few, 2).size(), 2U);
  // Where what waits between blocks is larger than the weights, there is one block.
  const Graph many = forward_of(build_wide, 512);
  EXPECT_TRUE(find_cuts(many, 2).empty());
}

TEST(SplitBlocks, PartsTakeTurnsBlockByBlock) {
  const Graph graph = split_batch(forward_of(build_wide, 1), 2);
  std::vector<std::string> order;
  for (const Node& node : graph.nodes) {
    if (node.op->name == "linear") order.push_back(node.name);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"a.part0", "a.part1", "b.part0", "b.part1", "c.part0", "c.part1"}));
}

TEST(SplitBlocks, CutBehindStatistics) {
  const Graph forward = forward_of(build_residual, 2);
  const auto cuts = find_cuts(forward, 4);
  for (std::size_t i = 0; i < forward.nodes.size(); ++i) {
    if (!sees_whole_batch(forward.nodes[i])) continue;
    EXPECT_TRUE(std::find(cuts.begin(), cuts.end(), i + 1) != cuts.end()) << forward.nodes[i].name;
  }
}

TEST(SplitSums, LargeGradientsAreSummedInPlace) {
  const Graph graph = trained(split_batch(forward_of(build_wide, 1), 4), true);
  EXPECT_EQ(count_of(graph, "linear_add_weight"), 3 * 3);  // but for the first part's
  const Graph small = trained(split_batch(forward_of(build_wide, 512), 4), true);
  EXPECT_EQ(count_of(small, "linear_add_weight"), 0);
}

TEST(SplitSums, RecurrentLayersAddInPlaceByThemselves) {
  const Graph graph =
      trained(split_batch(forward_of(
                              [](Builder& g, std::int64_t batch) {
                                const Value x = g.input("x", DType::kF32, {batch, 6, 4});
                                const Value steps = g("transpose", {x}, {{"perm", Ints{1, 0, 2}}});
                                g.output("loss", g("reduce_mean", {lstm(g, steps, 5, {.layers = 2, .chunk = 3}).y},
                                                   {{"keepdims", std::int64_t{0}}}));
                              },
                              2),
                          4));
  for (const Node& node : graph.nodes) {
    if (node.op->name != "add" || node.phase != Phase::kBackward) continue;
    EXPECT_NE(graph.at(node.outputs[0]).type.shape, (Shape{20, 5})) << node.name;
  }
}

}  // namespace
}  // namespace neap

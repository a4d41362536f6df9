#include "optimize/prune.h"

#include <gtest/gtest.h>

#include "autodiff/autodiff.h"
#include "autodiff/optimizer.h"
#include "neap/error.h"
#include "optimize/once.h"
#include "optimize/optimize_testing.h"
#include "optimize/sparse.h"

namespace neap {
namespace {

constexpr Pruning kTwoOfFour = {.keep = 2, .of = 4};

// Two layers that spell their weight differently, a convolution, and weights that make no whole groups.
Graph forward() {
  Builder g;
  const Value x = g.input("x", DType::kF32, {2, 3, 3, 16});
  Value y = g("conv", {x, g.parameter("conv.w", {16, 1, 1, 16}, Init::normal(0.3))});
  y = g("linear", {y, g.parameter("a", {24, 16}, Init::normal(0.3)), g.parameter("b", {24}, Init::normal(0.3))});
  y = g("matmul", {y, g.parameter("c", {24, 10}, Init::normal(0.3))});
  y = g("linear", {y, g.parameter("odd", {7, 10}, Init::normal(0.3))});
  g.output("y", y);
  return g.take();
}

std::map<std::string, HostTensor> leaves(const Graph& graph) {
  std::map<std::string, HostTensor> out;
  std::uint64_t key = 1;
  for (const Tensor& t : graph.tensors) {
    if (!t.producer) out[t.name] = random_values(t.type, key++);
  }
  return out;
}

TEST(Pruning, IsWrittenAsPatternOrShare) {
  EXPECT_FALSE(parse_pruning(""));
  const auto pattern = parse_pruning("2:4");
  ASSERT_TRUE(pattern);
  EXPECT_EQ(pattern->keep, 2);
  EXPECT_EQ(pattern->of, 4);
  EXPECT_EQ(pattern->from, 1);
  const auto share = parse_pruning("0.9,from=100");
  ASSERT_TRUE(share);
  EXPECT_EQ(share->of, 0);
  EXPECT_EQ(share->share, 0.9);
  EXPECT_EQ(share->from, 100);
  for (const char* wrong : {"4:4", "0:4", "2:", ":4", "2:65", "1", "0", "-0.5", "1.5", "half", "2:4,", "2:4,from=0",
                            "2:4,until=3", "2:4,from=x", "0.5x"}) {
    EXPECT_THROW(parse_pruning(wrong), UserError) << wrong;
  }
}

TEST(Pruning, TakesWeightsWithWholeGroups) {
  const Graph graph = forward();
  const auto weights = pruned_weights(graph, kTwoOfFour);
  ASSERT_EQ(weights.size(), 3U);
  EXPECT_EQ(weights.at(*graph.find("conv.w")), -1);
  EXPECT_EQ(weights.at(*graph.find("a")), -1);
  EXPECT_EQ(weights.at(*graph.find("c")), -2);
  EXPECT_EQ(pruned_weights(graph, {.share = 0.5}).size(), 4U);
}

TEST(Pruning, StandsBehindTheUpdates) {
  const Graph graph = forward();
  Builder g(graph);
  const Value loss = g("reduce_mean", {*graph.output("y")}, {{"keepdims", std::int64_t{0}}});
  append_updates(g, differentiate(g, loss, {*graph.find("a")}), {});
  append_pruning(g, pruned_weights(graph, kTwoOfFour), {.keep = 2, .of = 4, .from = 7}, 3);
  const Graph training = g.take();
  verify(training);
  EXPECT_EQ(count_of(training, "prune_update"), 3);
  const Node& last = training.nodes.back();
  EXPECT_EQ(last.op->name, "prune_update");
  EXPECT_EQ(last.phase, Phase::kUpdate);
  EXPECT_EQ(last.attrs.integer("from"), 21);
  EXPECT_EQ(training.at(*training.find("a.mask")).role, Role::kOptimizer);
  EXPECT_EQ(training.at(*training.find("a.mask")).type.bytes(), 24 * 16 / 8);
  EXPECT_EQ(print(with_sparse_layers(training)), print(training));
}

double difference(const Graph& a, const Graph& b) {
  const auto values = leaves(a);
  const auto x = evaluate(a, values);
  const auto y = evaluate(b, values);
  const HostTensor& left = x[a.output("y")->index];
  const HostTensor& right = y[b.output("y")->index];
  double most = 0;
  for (std::int64_t i = 0; i < left.type.elements(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(left.floats()[i]) - right.floats()[i]));
  }
  return most;
}

TEST(SparseLayers, SkipZerosWithTheSameResult) {
  const Graph dense = forward();
  const Graph before = with_pruned_weights(dense, kTwoOfFour);
  EXPECT_EQ(count_of(before, "prune"), 3);
  const Graph after = with_sparse_layers(before);
  EXPECT_EQ(count_of(after, "linear_sparse"), 2);
  EXPECT_EQ(count_of(after, "linear"), 1);
  EXPECT_EQ(count_of(after, "conv"), 1);
  EXPECT_GT(difference(dense, before), 1e-2);
  EXPECT_LT(difference(before, after), 1e-5);
  const Halves halves = split_once(after);
  EXPECT_EQ(halves.rest.nodes.size(), 4U) << print(halves.rest);
  EXPECT_FALSE(halves.rest.find("a"));
  EXPECT_EQ(print(parse_graph(print(after))), print(after));
}

TEST(SparseLayers, ListWhatAShareLeaves) {
  const Graph before = with_pruned_weights(forward(), {.share = 0.9});
  const Graph after = with_sparse_layers(before);
  EXPECT_EQ(count_of(after, "linear_listed"), 3);
  EXPECT_LT(difference(before, after), 1e-5);
  const Graph half = with_pruned_weights(forward(), {.share = 0.5});
  EXPECT_EQ(print(with_sparse_layers(half)), print(half));
}

TEST(SparseLayers, LeaveWhatWasNotPruned) {
  const Graph graph = forward();
  EXPECT_EQ(print(with_sparse_layers(graph)), print(graph));
  const Graph pruned = with_pruned_weights(graph, kTwoOfFour);
  EXPECT_EQ(print(with_sparse_layers(pruned, Where(pruned.nodes.size(), -1))), print(pruned));
}

}  // namespace
}  // namespace neap

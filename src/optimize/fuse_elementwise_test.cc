#include "optimize/fuse_elementwise.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "autodiff/autodiff.h"
#include "neap/layers.h"
#include "optimize/optimize_testing.h"
#include "optimize/rewrite.h"

namespace neap {
namespace {

HostTensor key() {
  HostTensor out({DType::kU64, {3}});
  out.as<std::uint64_t>()[0] = 5;
  out.as<std::uint64_t>()[1] = 2;
  return out;
}

// Silu spelled out, a bias for each column, a factor for each row, dropout and a residual; 1001 rows make the last
// chunk a smaller one.
constexpr std::int64_t kRows = 1001;
constexpr std::int64_t kColumns = 384;

Graph spelled_out() {
  Builder g;
  const Value x = g.parameter("x", {kRows, kColumns}, Init::normal(1));
  const Value bias = g.parameter("bias", {kColumns}, Init::normal(1));
  const Value factor = g.parameter("factor", {kRows, 1}, Init::normal(1));
  Value y = g("add", {x, bias});
  y = g("mul", {y, g("sigmoid", {y})});
  y = g("mul", {y, factor});
  y = dropout(g, y, 0.25);
  y = g("add", {g("tanh", {g("add", {y, x})}), g.scalar(0.5)});
  const Value loss = g("reduce_mean", {g("square", {y})}, {{"keepdims", std::int64_t{0}}});
  g.output("loss", loss);
  for (const auto& [id, gradient] : differentiate(g, loss, {x, bias, factor})) {
    g.output("d." + g.name_of(id), gradient);
  }
  return g.take();
}

std::map<std::string, HostTensor> leaves() {
  return {{"x", random_values({DType::kF32, {kRows, kColumns}}, 1)},
          {"bias", random_values({DType::kF32, {kColumns}}, 2)},
          {"factor", random_values({DType::kF32, {kRows, 1}}, 3)},
          {std::string(kRandomInput), key()}};
}

TEST(FusedElementwise, KeepsTheBitsOfForwardAndBackward) {
  const Graph before = spelled_out();
  const Graph after = fuse_elementwise(before);
  EXPECT_GE(count_of(after, "fused"), 2) << print(after);
  EXPECT_LT(after.nodes.size(), before.nodes.size());
  const bool has_backward = std::any_of(after.nodes.begin(), after.nodes.end(), [](const Node& node) {
    return node.op->name == "fused" && node.phase == Phase::kBackward;
  });
  EXPECT_TRUE(has_backward) << print(after);
  const auto was = evaluate(before, leaves());
  const auto is = evaluate(after, leaves());
  for (const auto& [label, id] : before.outputs) {
    EXPECT_EQ(is[after.output(label)->index].data, was[id.index].data) << label;
  }
}

TEST(FusedElementwise, PrintedGraphsComeBack) {
  const Graph after = fuse_elementwise(spelled_out());
  EXPECT_EQ(print(parse_graph(print(after))), print(after));
}

TEST(FusedElementwise, LeavesWhatOthersReadAndWhatIsSmall) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {1024, 1024});
  const Value y = g("tanh", {x});
  g.output("y", y);
  g.output("z", g("exp", {y}));
  const Value small = g.input("small", DType::kF32, {8});
  g.output("w", g("exp", {g("tanh", {small})}));
  const Graph before = g.take();
  EXPECT_EQ(print(fuse_elementwise(before)), print(before));
}

// Only where it may, and never across the border of two pieces.
TEST(FusedElementwise, StaysInItsPieces) {
  const Graph graph = spelled_out();
  const auto nodes = static_cast<int>(graph.nodes.size());
  EXPECT_EQ(count_of(fuse_elementwise(graph, Where(graph.nodes.size(), -1)), "fused"), 0);
  Where all(graph.nodes.size(), 0);
  const Graph whole = fuse_elementwise(graph, all);
  EXPECT_EQ(count_of(whole, "fused"), count_of(fuse_elementwise(graph), "fused"));
  std::uint32_t inside = 0;  // of a chain that becomes one node
  while (inside < graph.nodes.size() && counterparts(graph, whole)[inside] != counterparts(graph, whole)[inside + 1])
    ++inside;
  ASSERT_LT(static_cast<int>(inside), nodes);
  Where cut(graph.nodes.size(), 0);
  std::fill(cut.begin() + inside + 1, cut.end(), 1);
  const auto parts = counterparts(graph, fuse_elementwise(graph, cut));
  EXPECT_NE(parts[inside], parts[inside + 1]);
}

}  // namespace
}  // namespace neap

#include "mixed/tf32.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "autodiff/autodiff.h"
#include "autodiff/optimizer.h"
#include "graph/op.h"
#include "neap/layers.h"
#include "ops/evaluate.h"
#include "ops/has_kernel.h"
#include "ops/op_check.h"
#include "ops/product_math.h"
#include "optimize/optimization.h"

namespace neap {
namespace {

bool knows_tf32(const Node& node) { return std::ranges::find(ops_of_tf32(), node.op->name) != ops_of_tf32().end(); }

int count(const Graph& graph, std::string_view op) {
  return static_cast<int>(std::ranges::count_if(graph.nodes, [&](const Node& n) { return n.op->name == op; }));
}

// Products ask for it, nothing else does.
void expect_marked(const Graph& graph) {
  for (const Node& node : graph.nodes) EXPECT_EQ(ops::is_tf32(node.attrs), knows_tf32(node)) << node.op->name;
}

Graph step_of(Builder& g, Value loss) {
  g.output("loss", loss);
  append_updates(g, differentiate(g, loss, g.graph().with_role(Role::kParameter)), {.name = "sgd"}, 1);
  return g.take();
}

// A convolution, a gelu and a linear layer, forward and backward.
Graph layers() {
  Builder g;
  const Value x = g.input("x", DType::kF32, {2, 6, 6, 4});
  const Value targets = g.input("targets", DType::kI32, {2});
  const Value k = g.parameter("k", {8, 3, 3, 4}, Init::normal(1));
  const Value w = g.parameter("w", {5, 8 * 16}, Init::normal(1));
  const Value y = g("gelu", {g("conv", {g("tanh", {x}), k}, {}, "y")});
  const Value flat = g("reshape", {y}, {{"shape", Shape{2, 8 * 16}}});
  return step_of(g, cross_entropy_loss(g, g("linear", {flat, w}, {}, "logits"), targets));
}

TEST(WithTf32, MarksProductsForwardAndBackward) {
  const Graph plain = layers();
  for (const Node& node : plain.nodes) EXPECT_FALSE(ops::is_tf32(node.attrs)) << node.op->name;
  const Graph graph = with_tf32(plain);
  verify(graph);
  expect_marked(graph);
  for (const char* op : {"conv", "conv_grad_weight", "linear", "linear_grad_weight", "matmul"}) {
    EXPECT_EQ(count(graph, op), 1) << op;
  }
  ASSERT_EQ(graph.tensors.size(), plain.tensors.size());
  for (std::size_t i = 0; i < plain.tensors.size(); ++i) EXPECT_EQ(graph.tensors[i].type, plain.tensors[i].type);
}

// Kernels of a CPU do not know of it.
TEST(WithTf32, ChangesNothingOnACpu) {
  Graph plain = layers();
  std::map<std::string, HostTensor> leaves;
  std::uint64_t key = 0;
  for (const Tensor& t : plain.tensors) {
    if (!t.producer) leaves.emplace(t.name, random_tensor(t.type, ++key));
  }
  const auto want = evaluate(plain, leaves);
  const auto got = evaluate(with_tf32(plain), leaves);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].data, want[i].data) << plain.tensors[i].name;
}

TEST(WithTf32, LeavesOtherTypes) {
  Builder g;
  const Value a = g.input("a", DType::kF32, {4, 8});
  const Value b = g.input("b", DType::kF32, {8, 4});
  g.output("y", g("matmul", {a, b}, {}, "y"));
  Graph graph = g.take();
  for (Tensor& t : graph.tensors) t.type.dtype = DType::kBF16;
  EXPECT_FALSE(ops::is_tf32(with_tf32(graph).nodes.at(0).attrs));
}

TEST(WithTf32, IsForOpsThatAGpuHas) {
  for (const std::string_view name : ops_of_tf32()) EXPECT_TRUE(has_kernel(op_named(name), DeviceKind::kCuda)) << name;
}

// The nodes that a pass puts in a product's place take its products so, too.
TEST(WithTf32, SurvivesTheOptimizationsOfAGpu) {
  Builder g;
  const Value table = g.parameter("table", {8448, 512}, Init::normal(1));
  const Value ids = g.input("ids", DType::kI32, {512});
  const Value targets = g.input("targets", DType::kI32, {512});
  const Value w = g.parameter("w", {512, 512}, Init::normal(1));
  const Value picked = g("tanh", {g("gelu", {g("embedding", {table, ids})})});
  const Value x = g("linear", {picked, w}, {}, "x");
  const Graph step = with_tf32(step_of(g, cross_entropy_loss(g, g("linear", {x, table}), targets)));
  const Graph tiled = optimize(step, chosen_optimizations("vocab-loss,fuse", true));
  EXPECT_EQ(count(tiled, "vocab_loss"), 1);
  expect_marked(tiled);
  const Graph tied = optimize(step, chosen_optimizations("vocab-loss,tied-update,fuse", true));
  EXPECT_EQ(count(tied, "vocab_delta"), 1);
  EXPECT_GT(count(tied, "vocab_weight"), 1);
  expect_marked(tied);
}

// A transposed convolution's gradient is made of other convolutions.
TEST(WithTf32, GradientsOfConvolutionsCarryIt) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {1, 4, 4, 3});
  const Value w = g.parameter("w", {3, 3, 3, 5}, Init::normal(1));
  Attrs attrs;
  ops::set_tf32(attrs);
  const Value y = g("conv_transpose", {x, w}, attrs, "y");
  const Value loss = g("reduce_sum", {y}, {{"axes", Ints{0, 1, 2, 3}}, {"keepdims", std::int64_t{0}}});
  differentiate(g, loss, {w});
  const Graph graph = g.take();
  EXPECT_EQ(count(graph, "conv_grad_weight"), 1);
  expect_marked(graph);
}

}  // namespace
}  // namespace neap

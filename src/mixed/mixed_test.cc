#include "mixed/mixed.h"

#include <gtest/gtest.h>

#include "graph/op.h"
#include "mixed/tiled_loss.h"
#include "neap/builder.h"
#include "ops/evaluate.h"
#include "ops/op_check.h"

namespace neap {
namespace {

DType type_of(const Graph& graph, const char* name) { return graph.at(*graph.find(name)).type.dtype; }

// x + linear(norm(x)), as in a block of a transformer.
Graph block() {
  Builder g;
  const Value x = g.input("x", DType::kF32, {6, 16});
  const Value w = g.parameter("w", {16, 16}, Init::normal(1));
  const Value normal = g("layer_norm", {x}, {{"epsilon", 1e-5}}, "norm");
  const Value y = g("linear", {normal, w}, {}, "y");
  const Value h = g("gelu", {y}, {}, "h");
  const Value z = g("linear", {h, w}, {}, "z");
  g.output("loss", g("add", {x, z}, {}, "sum"));
  return g.take();
}

TEST(WithBf16, ProductsAndWhatLiesBetweenThemAreNarrow) {
  const Graph graph = with_bf16(block());
  EXPECT_EQ(type_of(graph, "x"), DType::kF32);
  EXPECT_EQ(type_of(graph, "w"), DType::kF32);
  EXPECT_EQ(type_of(graph, "w.bf16"), DType::kBF16);
  EXPECT_EQ(type_of(graph, "norm"), DType::kBF16);  // rounded where it is made: nothing else reads it
  EXPECT_EQ(type_of(graph, "y"), DType::kBF16);
  EXPECT_EQ(type_of(graph, "h"), DType::kBF16);
  EXPECT_EQ(type_of(graph, "sum"), DType::kF32);
  int casts = 0;
  for (const Node& node : graph.nodes) casts += node.op->name == "cast" ? 1 : 0;
  EXPECT_EQ(casts, 1);  // one copy of the weight serves both layers
}

TEST(WithBf16, ComputesWithinRounding) {
  const Graph wide = block();
  const std::map<std::string, HostTensor> leaves = {{"x", random_tensor({DType::kF32, {6, 16}}, 1)},
                                                    {"w", random_tensor({DType::kF32, {16, 16}}, 2)}};
  const Graph narrow = with_bf16(wide);
  const auto want = evaluate(wide, leaves);
  const auto got = evaluate(narrow, leaves);
  const HostTensor& a = got[narrow.find("sum")->index];
  const HostTensor& b = want[wide.find("sum")->index];
  expect_same(a, b, 0.05, "sum");
  EXPECT_NE(a.data, b.data);
}

// Parts of a whole have its type, whoever reads it.
TEST(WithBf16, PartsHaveTheTypeOfTheWhole) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {2, 16});
  const Value w = g.parameter("w", {8, 16}, Init::normal(1));
  const Value a = g("tanh", {x}, {}, "a");
  const Value whole = g("concat", {a, x}, {{"axis", std::int64_t{0}}}, "whole");
  g.output("loss", g("linear", {whole, w}, {}, "y"));
  const Graph graph = with_bf16(g.take());
  EXPECT_EQ(type_of(graph, "a"), DType::kF32);
  EXPECT_EQ(type_of(graph, "whole"), DType::kF32);
  EXPECT_EQ(type_of(graph, "whole.bf16"), DType::kBF16);
}

Graph vocabulary(bool reads_logits) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {12, 8});
  const Value targets = g.input("targets", DType::kI64, {12});
  const Value w = g.parameter("w", {20, 8}, Init::normal(1));
  const Value logits = g("linear", {x, w}, {}, "logits");
  if (reads_logits) g.output("logits", logits);
  g.output("loss", g("cross_entropy", {logits, targets}, {}, "loss"));
  return g.take();
}

TEST(TiledLoss, TakesThePlaceOfLogits) {
  const Graph plain = vocabulary(false);
  const Graph tiled = with_tiled_loss(plain, 16);
  EXPECT_FALSE(tiled.find("logits").has_value());
  verify(tiled);
  const std::map<std::string, HostTensor> leaves = {{"x", random_tensor({DType::kF32, {12, 8}}, 1)},
                                                    {"w", random_tensor({DType::kF32, {20, 8}}, 2)},
                                                    {"targets", random_tensor({DType::kI64, {12}}, 3, 0, 1, 20)}};
  const auto want = evaluate(plain, leaves);
  const auto got = evaluate(tiled, leaves);
  expect_same(got[tiled.find("loss")->index], want[plain.find("loss")->index], 1e-5, "loss");
}

TEST(TiledLoss, LeavesWhatIsReadOrSmall) {
  EXPECT_TRUE(with_tiled_loss(vocabulary(true), 16).find("logits").has_value());
  EXPECT_TRUE(with_tiled_loss(vocabulary(false), 32).find("logits").has_value());
}

}  // namespace
}  // namespace neap

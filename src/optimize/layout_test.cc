#include "optimize/layout.h"

#include <gtest/gtest.h>

#include "autodiff/autodiff.h"
#include "device/cpu/isa.h"
#include "optimize/once.h"
#include "optimize/optimize_testing.h"
#include "optimize/transposes.h"

namespace neap {
namespace {

Attrs perm(Ints axes) { return {{"perm", std::move(axes)}}; }

void expect_same_bits(const Graph& before, const Graph& after) {
  std::map<std::string, HostTensor> leaves;
  std::uint64_t key = 1;
  for (const Tensor& t : before.tensors) {
    if (!t.producer) leaves[t.name] = random_values(t.type, key++);
  }
  const auto was = evaluate(before, leaves);
  const auto is = evaluate(after, leaves);
  for (const auto& [label, id] : before.outputs) {
    EXPECT_EQ(is[after.output(label)->index].data, was[id.index].data) << label << "\n" << print(after);
  }
  EXPECT_EQ(print(parse_graph(print(after))), print(after));
}

TEST(Transposes, CancelAcrossElementwiseOps) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {2, 5, 7, 3});
  Value y = g("transpose", {x}, perm({0, 3, 1, 2}));
  y = g("tanh", {g("relu", {y})});
  y = g("transpose", {y}, perm({0, 2, 3, 1}));
  g.output("y", y);
  g.output("x again", g("transpose", {g("transpose", {x}, perm({1, 0, 2, 3}))}, perm({1, 0, 2, 3})));
  const Graph before = g.take();
  const Graph after = without_transposes(before);
  EXPECT_EQ(count_of(after, "transpose"), 0) << print(after);
  EXPECT_EQ(after.nodes.size(), 2U);
  expect_same_bits(before, after);
}

TEST(Transposes, InARowBecomeOne) {
  Builder g;
  Value y = g.input("x", DType::kF32, {2, 3, 4, 5});
  for (int i = 0; i < 3; ++i) y = g("transpose", {y}, perm({1, 2, 3, 0}));
  g.output("y", g("exp", {y}));
  const Graph before = g.take();
  const Graph after = without_transposes(before);
  EXPECT_EQ(count_of(after, "transpose"), 1) << print(after);
  expect_same_bits(before, after);
}

// Plain and in batches, either side, and where the product has such a flag already.
TEST(Transposes, GoIntoTheFlagsOfProducts) {
  Builder g;
  const Value a = g.input("a", DType::kF32, {40, 30});
  const Value b = g.input("b", DType::kF32, {50, 30});
  const Value c = g.input("c", DType::kF32, {3, 40, 30});
  const Value w = g.parameter("w", {30, 64}, Init::normal(1));
  const Ints two = {1, 0};
  g.output("ab", g("matmul", {a, g("transpose", {b}, perm(two))}));
  g.output("aa", g("matmul", {g("transpose", {a}, perm(two)), a}));
  g.output("cc", g("matmul", {c, g("transpose", {c}, perm({0, 2, 1}))}));
  g.output("back", g("matmul", {a, g("transpose", {w}, perm(two))}, {{"trans_b", std::int64_t{1}}}));
  g.output("layer", g("linear", {a, g("transpose", {w}, perm(two))}));
  const Graph before = g.take();
  const Graph after = without_transposes(before);
  EXPECT_EQ(count_of(after, "transpose"), 0) << print(after);
  expect_same_bits(before, after);
}

TEST(Transposes, StayWhereSomebodyWantsThem) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {4, 5});
  const Value t = g("transpose", {x}, perm({1, 0}));
  g.output("t", t);
  const Value r = g("relu", {t});
  g.output("r", r);
  g.output("y", g("transpose", {r}, perm({1, 0})));
  const Value other = g.input("z", DType::kF32, {2, 4, 5});
  g.output("z", g("matmul", {g("transpose", {other}, perm({1, 0, 2})), g("transpose", {x}, perm({1, 0}))}));
  const Graph before = g.take();
  const Graph after = without_transposes(before);
  EXPECT_EQ(count_of(after, "transpose"), 3) << print(after);
  expect_same_bits(before, after);
}

TEST(Transposes, LeaveOtherPiecesAlone) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {4, 5});
  g.output("y", g("exp", {g("transpose", {g("transpose", {x}, perm({1, 0}))}, perm({1, 0}))}));
  const Graph before = g.take();
  EXPECT_EQ(print(without_transposes(before, {0, 1, 1})), print(before));
  EXPECT_EQ(print(without_transposes(before, {-1, -1, -1})), print(before));
  EXPECT_EQ(count_of(without_transposes(before, {0, 0, 1}), "transpose"), 0);
}

// In training as well: forward, backward and their bits.
TEST(Layout, KeepsTheBitsOfTraining) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {6, 16});
  const Value w = g.parameter("w", {16, 32}, Init::normal(1));
  Value y = g("transpose", {g("tanh", {g("transpose", {x}, perm({1, 0}))})}, perm({1, 0}));
  y = g("linear", {y, g("transpose", {w}, perm({1, 0}))});
  const Value loss = g("reduce_mean", {g("square", {y})}, {{"keepdims", std::int64_t{0}}});
  g.output("loss", loss);
  for (const auto& [id, gradient] : differentiate(g, loss, {w})) g.output("dw", gradient);
  const Graph before = g.take();
  const Graph after = with_layout(before);
  EXPECT_LT(count_of(after, "transpose"), count_of(before, "transpose")) << print(after);
  EXPECT_EQ(count_of(after, "linear_packed"), 0);
  expect_same_bits(before, after);
}

TEST(Layout, PacksWeightsOnceForInference) {
  Builder g;
  Value y = g.input("x", DType::kF32, {9, 48});
  y = g("linear", {y, g.parameter("a", {128, 48}, Init::normal(1)), g.parameter("b", {128}, Init::normal(1))});
  y = g("matmul", {y, g.parameter("c", {128, 64}, Init::normal(1))});
  y = g("linear", {y, g.parameter("few", {10, 64}, Init::normal(1))});
  g.output("y", y);
  const Graph before = g.take();
  const Graph after = with_layout(before);
  const bool is_packed = isa() == Isa::kV4;
  EXPECT_EQ(count_of(after, "linear_packed"), is_packed ? 2 : 0) << print(after);
  EXPECT_EQ(count_of(split_once(after).rest, "pack_linear"), 0);
  EXPECT_EQ(static_cast<bool>(split_once(after).rest.find("a")), !is_packed);
  expect_same_bits(before, after);
}

// An embedding reads the rows of the weight that the last layer multiplies with.
TEST(Layout, LeavesWeightsThatOthersReadAsTheyAre) {
  Builder g;
  const Value table = g.parameter("table", {64, 32}, Init::normal(1));
  const Value rows = g("embedding", {table, g.input("ids", DType::kI32, {5})});
  g.output("y", g("linear", {rows, table}));
  const Graph before = g.take();
  EXPECT_EQ(print(with_layout(before)), print(before));
}

}  // namespace
}  // namespace neap

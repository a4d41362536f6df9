#include "ops/op_check.h"

namespace neap {
namespace {

OpCase tiled(Shape shape, Ints repeats) {
  return {.op = "tile", .inputs = {{DType::kF32, std::move(shape)}}, .attrs = {{"repeats", std::move(repeats)}}};
}

TEST(Tile, KernelsAgreeAndGradientHolds) {
  check_op(tiled({5}, {3}));
  check_op(tiled({2, 3}, {1, 4}));
  check_op(tiled({2, 3}, {3, 1}));
  check_op(tiled({2, 3, 4}, {2, 1, 3}));
}

TEST(Tile, RepeatsTheWhole) {
  const OpCase c = tiled({3}, {2});
  const auto y = run_op(c)[0];
  for (int i = 0; i < 3; ++i) EXPECT_EQ(y.floats()[i], y.floats()[i + 3]);
  EXPECT_NE(y.floats()[0], y.floats()[1]);
}

TEST(Tile, SymbolicAndBad) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {Dim::symbol("batch"), 4});
  EXPECT_EQ(g.shape(g("tile", {x}, {{"repeats", Ints{2, 3}}})).text(), "[2*batch,12]");
  EXPECT_THROW(g("tile", {x}, {{"repeats", Ints{2}}}), UserError);
  EXPECT_THROW(g("tile", {x}, {{"repeats", Ints{2, 0}}}), UserError);
}

}  // namespace
}  // namespace neap

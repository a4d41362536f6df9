#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

OpCase transposed(Shape x, Shape w, Attrs attrs = {}) {
  return {.op = "conv_transpose", .inputs = {f32(std::move(x)), f32(std::move(w))}, .attrs = std::move(attrs)};
}

OpCase with_bias(OpCase c, int channels) {
  c.inputs.push_back(f32({channels}));
  return c;
}

TEST(ConvTranspose, TwoAxes) {
  check_op(with_bias(transposed({2, 4, 5, 16}, {16, 3, 3, 8}), 8));
  check_op(transposed({2, 4, 5, 3}, {3, 2, 2, 5}, {{"strides", Ints{2, 2}}}));
  check_op(transposed({1, 4, 4, 16}, {16, 4, 4, 16}, {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}));
  check_op(transposed({1, 3, 4, 2}, {2, 3, 2, 3}, {{"dilations", Ints{2, 3}}, {"pads", Ints{1, 0, 2, 1}}}));
}

TEST(ConvTranspose, ThreeAxes) {
  check_op(with_bias(transposed({1, 2, 3, 3, 4}, {4, 2, 3, 2, 3}, {{"strides", Ints{1, 2, 2}}}), 3));
}

TEST(ConvTranspose, OutputPadding) {
  const Attrs attrs{{"strides", Ints{2, 3}}, {"output_padding", Ints{1, 2}}, {"pads", Ints{1, 0, 1, 1}}};
  check_op(with_bias(transposed({2, 3, 4, 4}, {4, 3, 3, 6}, attrs), 6));
  // More than the stride, which the dilation allows.
  check_op(transposed({1, 4, 3}, {3, 2, 2}, {{"dilations", Ints{3}}, {"output_padding", Ints{2}}}));
}

TEST(ConvTranspose, OneAxisAndGroups) {
  check_op(with_bias(transposed({2, 5, 6}, {6, 4, 2}, {{"groups", 3}, {"strides", Ints{2}}, {"pads", Ints{1, 2}}}), 6));
  check_op(transposed({2, 4, 4, 8}, {8, 3, 3, 1}, {{"groups", 8}, {"strides", Ints{2, 2}}}));
}

TEST(ConvTranspose, OfOnesCountsTheTapsThatMeet) {
  OpCase c = transposed({1, 3, 1}, {1, 3, 1}, {{"strides", Ints{2}}});
  c.low = 1;
  c.high = 1;
  const auto out = run_op(c);
  ASSERT_EQ(out[0].type.shape, (Shape{1, 7, 1}));
  const float want[] = {1, 1, 2, 1, 2, 1, 1};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(out[0].floats()[i], want[i]);
}

TEST(ConvTranspose, SymbolicSizes) {
  Builder g;
  const Dim n = Dim::symbol("batch");
  const Dim t = Dim::symbol("time");
  const Value x = g.input("x", DType::kF32, {n, t, 8});
  const Value w = g.input("w", DType::kF32, {8, 4, 2});
  EXPECT_EQ(g.shape(g("conv_transpose", {x, w}, {{"strides", Ints{2}}, {"pads", Ints{1, 1}}})),
            (Shape{n, Dim(2) * t, 2}));
}

TEST(ConvTranspose, BadInput) {
  EXPECT_THROW(run_op(transposed({1, 4, 4, 3}, {4, 3, 3, 2})), UserError);
  EXPECT_THROW(run_op(transposed({1, 4, 4, 3}, {3, 3, 3, 2}, {{"output_padding", Ints{1, 0}}})), UserError);
  EXPECT_THROW(run_op(transposed({1, 1, 1, 3}, {3, 1, 1, 2}, {{"pads", Ints{1, 1, 1, 1}}})), UserError);
  EXPECT_THROW(run_op(with_bias(transposed({1, 4, 4, 3}, {3, 3, 3, 2}), 3)), UserError);
}

}  // namespace
}  // namespace neap

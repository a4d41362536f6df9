#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

// Without offsets it is the convolution itself; with whole ones, the convolution of what they point to.
TEST(DeformConv, WithoutOffsetsIsAConvolution) {
  const Attrs attrs{{"groups", 2}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{1, 2}}};
  OpCase plain{.op = "conv", .inputs = {f32({2, 5, 6, 4}), f32({6, 3, 2, 2}), f32({6})}, .attrs = attrs};
  const std::vector<HostTensor> in = {random_tensor(plain.inputs[0], 1), random_tensor(plain.inputs[1], 2),
                                      random_tensor(plain.inputs[2], 3)};
  plain.given = {{0, in[0]}, {1, in[1]}, {2, in[2]}};
  const HostTensor want = run_op(plain, "ref")[0];
  Attrs with = attrs;
  with.set("offset_groups", 2);
  Shape moves = want.type.shape;
  moves[-1] = 2 * 6 * 2;
  OpCase c{.op = "deform_conv", .inputs = {plain.inputs[0], plain.inputs[1], f32(moves), f32({6})}, .attrs = with};
  c.given = {{0, in[0]}, {1, in[1]}, {2, HostTensor(f32(moves))}, {3, in[2]}};
  const HostTensor got = run_op(c)[0];
  ASSERT_EQ(got.type, want.type);
  for (std::int64_t i = 0; i < want.type.elements(); ++i) EXPECT_NEAR(got.floats()[i], want.floats()[i], 1e-5);
  check_threads(c);
}

TEST(DeformConv, OffsetsMoveDownThenRightAndTheMaskMultiplies) {
  const HostTensor x = tensor_of({1, 2, 3, 1}, {0, 1, 2, 10, 11, 12});
  const HostTensor w = tensor_of({1, 1, 1, 1}, {1});
  const HostTensor offset = tensor_of({1, 2, 3, 2}, {0, 0.5F, 0.5F, 0, 1, 0, 0, 0, -1, 1, 0, 5});
  const HostTensor mask = tensor_of({1, 2, 3, 1}, {1, 2, 1, 1, 1, 1});
  const auto out = run_op({.op = "deform_conv",
                           .inputs = {x.type, w.type, offset.type, f32({1}), mask.type},
                           .given = {{0, x}, {1, w}, {2, offset}, {4, mask}},
                           .absent = {3}});
  EXPECT_EQ(values_of(out[0]), (std::vector<float>{0.5F, 12, 12, 10, 2, 0}));
}

TEST(DeformConv, EveryKernelGivesTheSame) {
  const auto check = [](const Shape& x, const Shape& w, const Attrs& attrs, std::vector<std::size_t> absent) {
    const Shape y = run_op({.op = "conv", .inputs = {f32(x), f32(w)}, .attrs = attrs}, "ref")[0].type.shape;
    Shape mask = y;
    mask[-1] = attrs.integer("offset_groups", 1) * w.size(1) * w.size(2);
    Shape moves = mask;
    moves[-1] = 2 * mask.size(-1);
    OpCase c{.op = "deform_conv", .inputs = {f32(x), f32(w), f32(moves), f32({w[0]}), f32(mask)}, .attrs = attrs};
    c.given[2] = random_tensor(c.inputs[2], 6, -4, 4);
    c.absent = std::move(absent);
    check_kernels(c);
  };
  const Attrs moved{{"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 2, 1}}, {"dilations", Ints{1, 2}}};
  check({2, 9, 8, 4}, {70, 3, 2, 4}, moved, {});
  check({2, 9, 8, 4}, {3, 3, 2, 4}, moved, {3, 4});
  check({1, 9, 8, 12}, {6, 2, 2, 6}, {{"groups", 2}, {"offset_groups", 3}}, {4});
}

TEST(DeformConv, RefusesWhatDoesNotFit) {
  const auto run = [](const Shape& offset, const Attrs& attrs = {}) {
    run_op({.op = "deform_conv", .inputs = {f32({1, 3, 3, 2}), f32({1, 2, 2, 2}), f32(offset)}, .attrs = attrs});
  };
  EXPECT_THROW(run({1, 2, 2, 4}), UserError);
  EXPECT_THROW(run({1, 3, 3, 8}), UserError);
  EXPECT_THROW(run({1, 2, 2, 24}, {{"offset_groups", 3}}), UserError);
}

}  // namespace
}  // namespace neap

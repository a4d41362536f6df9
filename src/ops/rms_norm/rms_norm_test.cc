#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

OpCase norm_case(const Shape& x, const Shape& normalised, std::int64_t axis) {
  return {.op = "rms_norm", .inputs = {f32(x), f32(normalised)}, .attrs = {{"axis", axis}}};
}

TEST(RmsNorm, KernelsAgreeAndGradientHolds) {
  check_op(norm_case({4, 33}, {33}, -1));
  check_op(norm_case({2, 3, 5, 16}, {5, 16}, 2));
  check_op(norm_case({150, 7}, {7}, 1));
  OpCase c = norm_case({3, 70}, {70}, -1);
  c.absent = {1};
  check_op(c);
}

TEST(RmsNorm, OfOnesWithoutEpsilonIsTheScale) {
  OpCase c = norm_case({2, 5}, {5}, -1);
  c.attrs.set("epsilon", 0.0);
  c.given[0] = HostTensor(c.inputs[0]);
  std::fill_n(c.given[0].floats(), 10, 1.0F);
  const auto scale = random_tensor(c.inputs[1], 4);
  c.given[1] = scale;
  const auto out = run_op(c);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(out[0].floats()[i], scale.floats()[i % 5]);
}

TEST(RmsNorm, BadInput) {
  EXPECT_THROW(run_op(norm_case({4, 33}, {32}, -1)), UserError);
  EXPECT_THROW(run_op(norm_case({4, 33}, {33}, -3)), UserError);
}

}  // namespace
}  // namespace neap

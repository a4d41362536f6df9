#include <cmath>
#include <limits>

#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

TEST(SquareSum, KernelsAgreeOnAnyNumberOfThreads) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{3, 5, 17}, Shape{100003}, Shape{300, 700}}) {
    const OpCase c{.op = "square_sum", .inputs = {{DType::kF32, shape}}};
    EXPECT_EQ(run_op(c)[0].type.text(), "f32[1]");
    check_kernels(c);
    check_threads(c);
  }
}

std::vector<float> scale(const std::vector<float>& sums, double max_norm) {
  OpCase c{.op = "clip_scale", .attrs = {{"max_norm", max_norm}}};
  for (std::size_t i = 0; i < sums.size(); ++i) {
    c.inputs.push_back({DType::kF32, {1}});
    c.given[i] = tensor_of({1}, {sums[i]});
  }
  return values_of(run_op(c)[0]);
}

TEST(ClipScale, OfAllGradientsTogether) {
  const auto clipped = scale({9, 16}, 1);
  EXPECT_NEAR(clipped[0], 1 / (5 + 1e-6), 1e-7);
  EXPECT_EQ(clipped[1], 5);
  EXPECT_EQ(scale({0.09F, 0.16F}, 1)[0], 1);
  EXPECT_EQ(scale({0}, 1)[0], 1);
  EXPECT_EQ(scale({std::numeric_limits<float>::infinity()}, 1)[0], 0);
  EXPECT_TRUE(std::isnan(scale({std::nanf("")}, 1)[0]));
}

TEST(ClipScale, RefusesWhatDoesNotFit) {
  EXPECT_THROW(scale({1}, 0), UserError);
  EXPECT_THROW(scale({}, 1), UserError);
  EXPECT_THROW(run_op({.op = "clip_scale", .inputs = {{DType::kF32, {2}}}, .attrs = {{"max_norm", 1.0}}}), UserError);
}

}  // namespace
}  // namespace neap

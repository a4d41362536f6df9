#include <cmath>

#include "ops/op_check.h"

namespace neap {
namespace {

TEST(Softmax, KernelsAgreeAndGradientHolds) {
  for (const Shape& shape : {Shape{1}, Shape{7}, Shape{3, 5}, Shape{2, 3, 33}, Shape{4, 257}}) {
    check_op({.op = "softmax", .inputs = {{DType::kF32, shape}}, .low = -4, .high = 4});
    check_kernels({.op = "softmax_grad", .inputs = {{DType::kF32, shape}, {DType::kF32, shape}}});
  }
}

TEST(Softmax, AnyAxis) {
  for (const std::int64_t axis : {0, 1, 2, -1, -2, -3}) {
    check_op({.op = "softmax", .inputs = {{DType::kF32, {3, 5, 37}}}, .attrs = {{"axis", axis}}, .low = -4, .high = 4});
  }
  check_op({.op = "softmax", .inputs = {{DType::kF32, {18, 1}}}, .attrs = {{"axis", std::int64_t{0}}}});
}

TEST(Softmax, RowsSumToOne) {
  const auto out = run_op({.op = "softmax", .inputs = {{DType::kF32, {4, 9}}}, .low = -50, .high = 50});
  for (int r = 0; r < 4; ++r) {
    float sum = 0;
    for (int i = 0; i < 9; ++i) sum += out[0].floats()[r * 9 + i];
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST(Softmax, LargeNumbersDoNotOverflow) {
  for (const std::int64_t axis : {0, 1}) {
    check_kernels(
        {.op = "softmax", .inputs = {{DType::kF32, {9, 20}}}, .attrs = {{"axis", axis}}, .low = -3e4, .high = 3e4});
  }
}

TEST(Softmax, MinusInfinityIsNothing) {
  HostTensor x({DType::kF32, {2, 3}});
  const float given[] = {0, -INFINITY, 0, -INFINITY, -INFINITY, 5};
  std::copy(std::begin(given), std::end(given), x.floats());
  check_kernels({.op = "softmax", .inputs = {x.type}, .given = {{0, x}}});
  const auto out = run_op({.op = "softmax", .inputs = {x.type}, .given = {{0, x}}});
  EXPECT_EQ(out[0].floats()[0], 0.5F);
  EXPECT_EQ(out[0].floats()[1], 0);
  EXPECT_EQ(out[0].floats()[5], 1);
}

TEST(Softmax, NanSpreadsOverItsRowAlone) {
  HostTensor x = random_tensor({DType::kF32, {2, 40}}, 1);
  x.floats()[3] = NAN;
  const auto out = run_op({.op = "softmax", .inputs = {x.type}, .given = {{0, x}}});
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(std::isnan(out[0].floats()[i])) << i;
    EXPECT_FALSE(std::isnan(out[0].floats()[40 + i])) << i;
  }
}

TEST(Softmax, EmptyTensors) {
  check_kernels({.op = "softmax", .inputs = {{DType::kF32, {0, 9}}}});
  check_kernels({.op = "softmax", .inputs = {{DType::kF32, {4, 0}}}});
}

TEST(Softmax, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "softmax", .inputs = {{DType::kI32, {4, 9}}}}), UserError);
  EXPECT_THROW(run_op({.op = "softmax", .inputs = {{DType::kF32, {}}}}), UserError);
  EXPECT_THROW(run_op({.op = "softmax", .inputs = {{DType::kF32, {4, 9}}}, .attrs = {{"axis", std::int64_t{2}}}}),
               UserError);
}

}  // namespace
}  // namespace neap

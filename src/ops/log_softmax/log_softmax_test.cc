#include <cmath>

#include "ops/elementwise/in_place_check.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TEST(LogSoftmax, KernelsAgreeAndGradientHolds) {
  for (const Shape& shape : {Shape{1}, Shape{7}, Shape{3, 5}, Shape{2, 3, 33}, Shape{4, 257}}) {
    check_op({.op = "log_softmax", .inputs = {{DType::kF32, shape}}, .low = -4, .high = 4});
    check_kernels({.op = "log_softmax_grad", .inputs = {{DType::kF32, shape}, {DType::kF32, shape}}});
  }
}

TEST(LogSoftmax, AnyAxis) {
  for (const std::int64_t axis : {0, 1, 2, -1, -2, -3}) {
    check_op(
        {.op = "log_softmax", .inputs = {{DType::kF32, {3, 5, 37}}}, .attrs = {{"axis", axis}}, .low = -4, .high = 4});
  }
}

// By hand: rows of equal numbers, and of two that differ by ln 3.
TEST(LogSoftmax, IsTheLogarithmOfShares) {
  HostTensor x({DType::kF32, {2, 2}});
  const float given[] = {100, 100, 0, std::log(3.0F)};
  std::copy(std::begin(given), std::end(given), x.floats());
  for (const char* kernel : {"simd", "ref"}) {
    const auto out = run_op({.op = "log_softmax", .inputs = {x.type}, .given = {{0, x}}}, kernel);
    const double want[] = {-std::log(2.0), -std::log(2.0), -std::log(4.0), std::log(0.75)};
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(out[0].floats()[i], want[i], 1e-6) << kernel << i;
  }
}

// softmax would give 0, and its logarithm nothing to go back through.
TEST(LogSoftmax, KeepsWhatSoftmaxRoundsToNothing) {
  HostTensor x({DType::kF32, {1, 2}});
  x.floats()[0] = 0;
  x.floats()[1] = -500;
  const auto out = run_op({.op = "log_softmax", .inputs = {x.type}, .given = {{0, x}}});
  EXPECT_EQ(out[0].floats()[0], 0);
  EXPECT_EQ(out[0].floats()[1], -500);
}

TEST(LogSoftmax, LargeNumbersDoNotOverflow) {
  for (const std::int64_t axis : {0, 1}) {
    check_kernels(
        {.op = "log_softmax", .inputs = {{DType::kF32, {9, 20}}}, .attrs = {{"axis", axis}}, .low = -3e4, .high = 3e4});
  }
}

TEST(LogSoftmax, NanSpreadsOverItsRowAlone) {
  HostTensor x = random_tensor({DType::kF32, {2, 40}}, 1);
  x.floats()[3] = NAN;
  const auto out = run_op({.op = "log_softmax", .inputs = {x.type}, .given = {{0, x}}});
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(std::isnan(out[0].floats()[i])) << i;
    EXPECT_FALSE(std::isnan(out[0].floats()[40 + i])) << i;
  }
}

TEST(LogSoftmax, OverItsInputAndByAnyNumberOfThreads) {
  const TensorType type{DType::kF32, {301, 67}};
  check_in_place({.op = "log_softmax", .inputs = {type}});
  check_in_place({.op = "log_softmax_grad", .inputs = {type, type}});
  check_threads({.op = "log_softmax", .inputs = {type}});
  check_threads({.op = "log_softmax_grad", .inputs = {type, type}});
}

TEST(LogSoftmax, EmptyTensors) {
  check_kernels({.op = "log_softmax", .inputs = {{DType::kF32, {0, 9}}}});
  check_kernels({.op = "log_softmax", .inputs = {{DType::kF32, {4, 0}}}});
}

TEST(LogSoftmax, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "log_softmax", .inputs = {{DType::kI32, {4, 9}}}}), UserError);
  EXPECT_THROW(run_op({.op = "log_softmax", .inputs = {{DType::kF32, {}}}}), UserError);
  EXPECT_THROW(run_op({.op = "log_softmax", .inputs = {{DType::kF32, {4, 9}}}, .attrs = {{"axis", std::int64_t{2}}}}),
               UserError);
}

}  // namespace
}  // namespace neap

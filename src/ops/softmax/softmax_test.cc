#include "ops/op_check.h"

namespace neap {
namespace {

TEST(Softmax, KernelsAgreeAndGradientHolds) {
  for (const Shape& shape : {Shape{1}, Shape{7}, Shape{3, 5}, Shape{2, 3, 33}, Shape{4, 257}}) {
    check_op({.op = "softmax", .inputs = {{DType::kF32, shape}}, .low = -4, .high = 4});
  }
}

TEST(Softmax, RowsSumToOne) {
  const auto out = run_op({.op = "softmax", .inputs = {{DType::kF32, {4, 9}}}, .low = -50, .high = 50});
  for (int r = 0; r < 4; ++r) {
    float sum = 0;
    for (int i = 0; i < 9; ++i) sum += out[0].floats()[r * 9 + i];
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST(Softmax, RefusesIntegers) {
  EXPECT_THROW(run_op({.op = "softmax", .inputs = {{DType::kI32, {4, 9}}}}), UserError);
}

}  // namespace
}  // namespace neap

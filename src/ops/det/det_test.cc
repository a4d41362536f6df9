#include <cmath>

#include "ops/elementwise/element_testing.h"
#include "ops/op_check.h"

namespace neap {
namespace {

std::vector<double> run(const HostTensor& x) {
  return numbers_of(run_op({.op = "det", .inputs = {x.type}, .given = {{0, x}}})[0]);
}

TEST(Det, OfEveryMatrix) {
  for (const DType type : {DType::kF32, DType::kF64, DType::kF16}) {
    EXPECT_EQ(run(tensor_from(type, {3, 2, 2}, {1, 2, 3, 4, 0, 1, 1, 0, 1, 2, 2, 4})),
              (std::vector<double>{-2, -1, 0}));
  }
  EXPECT_NEAR(run(tensor_from(DType::kF64, {3, 3}, {0, 2, 1, 4, 0, 3, 1, 5, 0}))[0], 26, 1e-12);
  EXPECT_EQ(run(tensor_from(DType::kF32, {0, 0}, {})), (std::vector<double>{1}));
  EXPECT_THROW(run(tensor_from(DType::kF32, {2, 3}, {})), UserError);
  EXPECT_THROW(run(tensor_from(DType::kI32, {2, 2}, {})), UserError);
}

// Of one warp and of more; with rows to swap, equal pivots and without an inverse.
TEST(Det, EveryKernelGivesTheSame) {
  for (const DType type : {DType::kF32, DType::kF64}) {
    for (const std::int64_t n : {1, 2, 5, 32, 33, 70, 130}) {
      check_kernels({.op = "det", .inputs = {{type, {3, n, n}}}, .low = -0.4, .high = 0.4});
      check_kernels({.op = "det", .inputs = {{type, {2, n, n}}}, .low = 0.5, .high = 0.5});
    }
    check_kernels({.op = "det", .inputs = {{type, {600, 2, 2}}}});
    const HostTensor odd = tensor_from(type, {2, 2, 2}, {NAN, 1, 2, 3, 1, INFINITY, 2, NAN});
    check_kernels({.op = "det", .inputs = {odd.type}, .given = {{0, odd}}});
    check_kernels({.op = "det", .inputs = {{type, {2, 0, 0}}}});
  }
}

}  // namespace
}  // namespace neap

#include <omp.h>

#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }
const Attrs kTransposed = {{"transposed", std::int64_t{1}}};

TEST(Linear, KernelsAgreeAndGradientHolds) {
  check_op({.op = "linear", .inputs = {f32({3, 5}), f32({7, 5}), f32({7})}});
  check_op({.op = "linear", .inputs = {f32({5}), f32({7, 5}), f32({7})}});
  check_op({.op = "linear", .inputs = {f32({2, 3, 17}), f32({33, 17}), f32({33})}});
  check_op({.op = "linear", .inputs = {f32({1, 1}), f32({1, 1}), f32({1})}});
  check_op({.op = "linear", .inputs = {f32({19, 70}), f32({66, 70}), f32({66})}, .attrs = {}});
}

// Few results of many terms each: kernels may cut the sums.
TEST(Linear, LongSums) {
  for (const std::int64_t long_side : {2048, 1100}) {
    check_kernels({.op = "linear", .inputs = {f32({3, long_side}), f32({5, long_side}), f32({5})}});
    check_kernels({.op = "linear", .inputs = {f32({1, long_side}), f32({1, long_side})}});
    for (const std::int64_t transposed : {0, 1}) {
      check_kernels({.op = "linear_grad_weight",
                     .inputs = {f32({long_side, 9}), f32({long_side, 6})},
                     .attrs = {{"shape", transposed != 0 ? Shape{9, 6} : Shape{6, 9}}, {"transposed", transposed}}});
    }
  }
}

TEST(Linear, WithoutBias) {
  check_op({.op = "linear", .inputs = {f32({4, 5}), f32({7, 5})}});
  check_op({.op = "linear", .inputs = {f32({4, 5}), f32({7, 5}), f32({7})}, .absent = {2}});
}

TEST(Linear, TransposedWeight) {
  check_op({.op = "linear", .inputs = {f32({3, 5}), f32({5, 7}), f32({7})}, .attrs = kTransposed});
  check_op({.op = "linear", .inputs = {f32({2, 9, 18}), f32({18, 35})}, .attrs = kTransposed});
}

TEST(Linear, FrozenWeightStillGivesBiasGradient) {
  check_op({.op = "linear", .inputs = {f32({3, 5}), f32({7, 5}), f32({7})}, .constant = {1}});
  check_op({.op = "linear", .inputs = {f32({3, 5}), f32({7, 5}), f32({7})}, .constant = {0, 2}});
}

TEST(Linear, GradientKernelsAgree) {
  for (const std::int64_t rows : {1, 7, 8, 9, 100}) {
    for (const std::int64_t out : {1, 15, 64, 65, 130}) {
      check_kernels({.op = "linear_grad_weight",
                     .inputs = {f32({rows, 21}), f32({rows, out})},
                     .attrs = {{"shape", Shape{out, 21}}}});
      check_kernels({.op = "linear_grad_weight",
                     .inputs = {f32({rows, 21}), f32({rows, out})},
                     .attrs = {{"shape", Shape{21, out}}, {"transposed", std::int64_t{1}}}});
    }
  }
}

TEST(Linear, NoRows) {
  check_kernels({.op = "linear", .inputs = {f32({0, 5}), f32({7, 5}), f32({7})}});
  check_kernels({.op = "linear_grad_weight", .inputs = {f32({0, 5}), f32({0, 7})}, .attrs = {{"shape", Shape{7, 5}}}});
}

TEST(Linear, BitsDoNotDependOnThreads) {
  const int threads = omp_get_max_threads();
  const OpCase c = {.op = "linear_grad_weight",
                    .inputs = {f32({2048, 384}), f32({2048, 256})},
                    .attrs = {{"shape", Shape{256, 384}}}};
  for (const char* kernel : {"onednn", "simd"}) {
    omp_set_num_threads(1);
    const auto one = run_op(c, kernel);
    omp_set_num_threads(2);
    const auto two = run_op(c, kernel);
    omp_set_num_threads(threads);
    EXPECT_EQ(one[0].data, two[0].data) << kernel;
    EXPECT_EQ(one[1].data, two[1].data) << kernel;
  }
}

TEST(Linear, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "linear", .inputs = {f32({3, 5}), f32({7, 6})}}), UserError);
  EXPECT_THROW(run_op({.op = "linear", .inputs = {f32({3, 5}), f32({7, 5}), f32({5})}}), UserError);
  EXPECT_THROW(run_op({.op = "linear", .inputs = {f32({3, 5}), f32({5, 7})}}), UserError);
  EXPECT_THROW(run_op({.op = "linear", .inputs = {f32({3, 5}), f32({7, 5, 1})}}), UserError);
  EXPECT_THROW(run_op({.op = "linear", .inputs = {f32({}), f32({7, 5})}}), UserError);
  EXPECT_THROW(run_op({.op = "linear", .inputs = {f32({3, 5})}}), UserError);
}

}  // namespace
}  // namespace neap

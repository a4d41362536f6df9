#include <omp.h>

#include <cmath>

#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }
const char* const kLosses[] = {"mse", "l1_loss", "smooth_l1", "bce_with_logits"};

TEST(PointwiseLoss, KernelsAgreeAndGradientHolds) {
  for (const char* op : kLosses) {
    for (const char* reduction : {"mean", "sum"}) {
      for (const Shape& shape : {Shape{}, Shape{1}, Shape{15}, Shape{4, 33}}) {
        // A small step: the absolute losses have corners.
        check_op({.op = op,
                  .inputs = {f32(shape), f32(shape)},
                  .attrs = {{"reduction", std::string(reduction)}},
                  .low = -2,
                  .high = 2,
                  .tolerance = 1e-4,
                  .gradient_tolerance = 5e-2,
                  .step = 2e-3});
      }
    }
  }
}

TEST(PointwiseLoss, SeveralBlocks) {
  for (const char* op : kLosses) {
    check_kernels({.op = op, .inputs = {f32({3, 5, 601}), f32({3, 5, 601})}, .low = -2, .high = 2});
    for (const std::int64_t wrt : {0, 1}) {
      check_kernels({.op = std::string(op) + "_grad",
                     .inputs = {f32({}), f32({9001}), f32({9001})},
                     .attrs = {{"wrt", wrt}},
                     .low = -3,
                     .high = 3});
    }
  }
}

TEST(PointwiseLoss, OtherCorner) {
  for (const double beta : {0.0, 0.25, 3.0}) {
    check_op({.op = "smooth_l1", .inputs = {f32({40}), f32({40})}, .attrs = {{"beta", beta}}, .step = 1e-3});
  }
}

TEST(PointwiseLoss, LargeLogitsStayExact) {
  HostTensor x(f32({4}));
  HostTensor y(f32({4}));
  const float xs[] = {200, -200, 20, -20};
  const float ys[] = {1, 0, 1, 0};
  std::copy(std::begin(xs), std::end(xs), x.floats());
  std::copy(std::begin(ys), std::end(ys), y.floats());
  const auto out = run_op({.op = "bce_with_logits",
                           .inputs = {x.type, y.type},
                           .attrs = {{"reduction", std::string("sum")}},
                           .given = {{0, x}, {1, y}}});
  EXPECT_NEAR(out[0].floats()[0] / (2 * std::exp(-20.0)), 1, 1e-5);
}

TEST(PointwiseLoss, BitsDoNotDependOnThreads) {
  const int threads = omp_get_max_threads();
  const OpCase c = {.op = "mse", .inputs = {f32({100003}), f32({100003})}};
  omp_set_num_threads(1);
  const auto one = run_op(c);
  omp_set_num_threads(3);
  const auto three = run_op(c);
  omp_set_num_threads(threads);
  EXPECT_EQ(one[0].data, three[0].data);
}

TEST(PointwiseLoss, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "mse", .inputs = {f32({3}), f32({4})}}), UserError);
  EXPECT_THROW(run_op({.op = "mse", .inputs = {f32({3}), {DType::kI32, {3}}}}), UserError);
  EXPECT_THROW(run_op({.op = "mse", .inputs = {f32({3}), f32({3})}, .attrs = {{"reduction", std::string("no")}}}),
               UserError);
  EXPECT_THROW(run_op({.op = "smooth_l1", .inputs = {f32({3}), f32({3})}, .attrs = {{"beta", -1.0}}}), UserError);
}

}  // namespace
}  // namespace neap

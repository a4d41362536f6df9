#include <gtest/gtest.h>

#include "neap/error.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

OpCase with_rows(std::int64_t rows, std::int64_t in, std::int64_t classes, bool bias = true) {
  OpCase c{.op = "linear_loss",
           .inputs = {f32({rows, in}), f32({classes, in}), f32({classes}), {DType::kI64, {rows}}},
           .integer_bound = classes};
  if (!bias) c.absent = {2};
  return c;
}

TEST(LinearLoss, Agrees) {
  check_op(with_rows(5, 7, 11));
  check_op(with_rows(19, 16, 24, false));
  check_op(with_rows(1, 1, 2));
}

// More than one tile of rows.
TEST(LinearLoss, Tiles) { check_kernels(with_rows(700, 8, 40)); }

TEST(LinearLoss, Options) {
  OpCase c = with_rows(9, 6, 16);
  c.attrs = {{"label_smoothing", 0.1}};
  check_op(c);
  c.attrs = {{"ignore_index", std::int64_t{3}}, {"reduction", std::string("sum")}};
  check_op(c);
}

TEST(LinearLoss, IsCrossEntropyOfLinear) {
  const OpCase c = with_rows(300, 12, 32);
  const auto got = run_op(c, "simd");
  const auto logits = run_op({.op = "linear", .inputs = {c.inputs[0], c.inputs[1], c.inputs[2]}});
  const auto want = run_op({.op = "cross_entropy",
                            .inputs = {f32({300, 32}), c.inputs[3]},
                            .given = {{0, logits[0]}, {1, random_tensor(c.inputs[3], 103, -1, 1, 32)}}});
  expect_same(got[0], want[0], 1e-5, "loss");
}

TEST(LinearLoss, RefusesWhatDoesNotFit) {
  OpCase c = with_rows(4, 5, 6);
  c.inputs[1] = f32({6, 4});
  EXPECT_THROW(run_op(c), UserError);
  c = with_rows(4, 5, 6);
  c.inputs[3] = {DType::kI64, {3}};
  EXPECT_THROW(run_op(c), UserError);
}

}  // namespace
}  // namespace neap

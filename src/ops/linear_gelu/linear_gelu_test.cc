#include <gtest/gtest.h>

#include "neap/error.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

const Attrs kTanh = {{"approximate", std::string("tanh")}};
const Attrs kMore = {{"more", std::int64_t{1}}};

TEST(LinearGelu, Agrees) {
  check_op({.op = "linear_gelu", .inputs = {f32({3, 5}), f32({7, 5}), f32({7})}});
  check_op({.op = "linear_gelu", .inputs = {f32({2, 3, 16}), f32({24, 16})}});
  check_op({.op = "linear_gelu", .inputs = {f32({1, 1}), f32({1, 1}), f32({1})}, .absent = {2}});
}

TEST(LinearGelu, GradientAgrees) {
  for (const std::int64_t rows : {1, 9, 70}) {
    for (const Attrs& attrs : {Attrs{}, kMore}) {
      check_kernels(
          {.op = "gelu_linear_grad", .inputs = {f32({rows, 6}), f32({6, 11}), f32({rows, 11})}, .attrs = attrs});
    }
  }
}

TEST(LinearGelu, IsGeluOfLinear) {
  const OpCase c{.op = "linear_gelu", .inputs = {f32({9, 12}), f32({20, 12}), f32({20})}};
  const auto got = run_op(c);
  const auto h = run_op({.op = "linear", .inputs = c.inputs});
  const auto want = run_op({.op = "gelu", .inputs = {f32({9, 20})}, .attrs = kTanh, .given = {{0, h[0]}}});
  expect_same(got[0], want[0], 1e-5, "gelu");
  expect_same(got[1], h[0], 1e-5, "h");
}

// The three nodes that it stands for.
TEST(LinearGelu, GradientIsThatOfTheParts) {
  const OpCase c{.op = "gelu_linear_grad", .inputs = {f32({9, 12}), f32({12, 20}), f32({9, 20})}, .attrs = kMore};
  const auto got = run_op(c);
  const HostTensor h = random_tensor(c.inputs[2], 102);
  const auto product = run_op({.op = "matmul", .inputs = {c.inputs[0], c.inputs[1]}});
  const auto dh = run_op(
      {.op = "gelu_grad", .inputs = {c.inputs[2], c.inputs[2]}, .attrs = kTanh, .given = {{0, product[0]}, {1, h}}});
  const auto again = run_op({.op = "gelu", .inputs = {c.inputs[2]}, .attrs = kTanh, .given = {{0, h}}});
  expect_same(got[0], dh[0], 1e-5, "dh");
  expect_same(got[1], again[0], 1e-5, "gelu again");
  const auto sums = run_op({.op = "linear_grad_weight",
                            .inputs = {f32({9, 1}), c.inputs[2]},
                            .attrs = {{"shape", Shape{20, 1}}},
                            .given = {{1, dh[0]}}});
  expect_same(got[2], sums[1], 1e-5, "sums");
}

TEST(LinearGelu, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "linear_gelu", .inputs = {f32({3, 5}), f32({7, 6})}}), UserError);
  EXPECT_THROW(run_op({.op = "linear_gelu", .inputs = {f32({3, 5}), f32({7, 5}), f32({5})}}), UserError);
  EXPECT_THROW(run_op({.op = "gelu_linear_grad", .inputs = {f32({3, 6}), f32({7, 5}), f32({3, 5})}}), UserError);
  EXPECT_THROW(run_op({.op = "gelu_linear_grad", .inputs = {f32({3, 7}), f32({7, 5}), f32({4, 5})}}), UserError);
}

}  // namespace
}  // namespace neap

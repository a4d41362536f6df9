#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

TEST(GemmOp, AllSides) {
  for (const std::int64_t a : {0, 1}) {
    for (const std::int64_t b : {0, 1}) {
      const TensorType x = f32(a != 0 ? Shape{6, 4} : Shape{4, 6});
      const TensorType y = f32(b != 0 ? Shape{9, 6} : Shape{6, 9});
      check_op({.op = "gemm",
                .inputs = {x, y, f32({4, 9})},
                .attrs = {{"trans_a", a}, {"trans_b", b}, {"alpha", 0.5}, {"beta", 2.0}}});
      check_op({.op = "gemm", .inputs = {x, y}, .attrs = {{"trans_a", a}, {"trans_b", b}, {"alpha", -1.5}}});
    }
  }
}

TEST(GemmOp, BroadcastsTheThird) {
  for (const Shape& c : {Shape{}, Shape{1}, Shape{9}, Shape{1, 9}, Shape{4, 1}, Shape{1, 1}, Shape{4, 9}}) {
    check_op({.op = "gemm", .inputs = {f32({4, 6}), f32({6, 9}), f32(c)}});
    check_op({.op = "gemm", .inputs = {f32({4, 6}), f32({6, 9}), f32(c)}, .attrs = {{"beta", 0.25}}});
  }
}

TEST(GemmOp, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "gemm", .inputs = {f32({4, 6}), f32({5, 9})}}), UserError);
  EXPECT_THROW(run_op({.op = "gemm", .inputs = {f32({4, 6}), f32({6, 9}), f32({4})}}), UserError);
  EXPECT_THROW(run_op({.op = "gemm", .inputs = {f32({4, 6}), f32({6, 9}), f32({1, 4, 9})}}), UserError);
  EXPECT_THROW(run_op({.op = "gemm", .inputs = {f32({2, 4, 6}), f32({6, 9})}}), UserError);
}

}  // namespace
}  // namespace neap

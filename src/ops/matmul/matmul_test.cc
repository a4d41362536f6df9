#include <omp.h>

#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

TEST(Matmul, MatricesOfOddSizes) {
  check_op({.op = "matmul", .inputs = {f32({3, 5}), f32({5, 7})}});
  check_op({.op = "matmul", .inputs = {f32({1, 1}), f32({1, 1})}});
  check_op({.op = "matmul", .inputs = {f32({17, 33}), f32({33, 65})}});
  check_op({.op = "matmul", .inputs = {f32({1, 129}), f32({129, 3})}});
}

TEST(Matmul, TransposedSides) {
  for (const std::int64_t a : {0, 1}) {
    for (const std::int64_t b : {0, 1}) {
      check_op({.op = "matmul",
                .inputs = {f32(a != 0 ? Shape{6, 4} : Shape{4, 6}), f32(b != 0 ? Shape{9, 6} : Shape{6, 9})},
                .attrs = {{"trans_a", a}, {"trans_b", b}, {"alpha", 0.5}}});
      check_op(
          {.op = "matmul",
           .inputs = {f32(a != 0 ? Shape{3, 6, 4} : Shape{3, 4, 6}), f32(b != 0 ? Shape{3, 9, 6} : Shape{3, 6, 9})},
           .attrs = {{"trans_a", a}, {"trans_b", b}}});
    }
  }
}

TEST(Matmul, BatchesBroadcast) {
  check_op({.op = "matmul", .inputs = {f32({2, 3, 4, 5}), f32({2, 3, 5, 2})}});
  check_op({.op = "matmul", .inputs = {f32({2, 3, 4, 5}), f32({3, 5, 2})}});
  check_op({.op = "matmul", .inputs = {f32({2, 1, 4, 5}), f32({3, 5, 2})}});
  check_op({.op = "matmul", .inputs = {f32({3, 4, 5}), f32({2, 1, 5, 2})}});
  check_op({.op = "matmul", .inputs = {f32({2, 3, 4, 5}), f32({5, 2})}});
  check_op({.op = "matmul", .inputs = {f32({4, 5}), f32({2, 3, 5, 2})}});
  check_op({.op = "matmul", .inputs = {f32({2, 1, 5, 4}), f32({1, 3, 5, 2})}, .attrs = {{"trans_a", std::int64_t{1}}}});
  check_op({.op = "matmul", .inputs = {f32({2, 3, 4, 5}), f32({7, 5})}, .attrs = {{"trans_b", std::int64_t{1}}}});
}

TEST(Matmul, Vectors) {
  check_op({.op = "matmul", .inputs = {f32({5}), f32({5})}});
  check_op({.op = "matmul", .inputs = {f32({5}), f32({5, 3})}});
  check_op({.op = "matmul", .inputs = {f32({4, 5}), f32({5})}});
  check_op({.op = "matmul", .inputs = {f32({2, 4, 5}), f32({5})}});
  check_op({.op = "matmul", .inputs = {f32({5}), f32({2, 5, 3})}});
}

TEST(Matmul, EmptySides) {
  check_kernels({.op = "matmul", .inputs = {f32({3, 0}), f32({0, 4})}});
  check_kernels({.op = "matmul", .inputs = {f32({0, 3}), f32({3, 4})}});
  check_kernels({.op = "matmul", .inputs = {f32({0, 2, 3}), f32({0, 3, 4})}});
}

TEST(Matmul, ShapesOfSymbols) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {Dim::symbol("batch"), 4, Dim::symbol("time")});
  const Value y = g.input("y", DType::kF32, {Dim::symbol("time"), 3});
  EXPECT_EQ(g.type(g("matmul", {x, y})).text(), "f32[batch,4,3]");
}

TEST(Matmul, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "matmul", .inputs = {f32({3, 4}), f32({5, 6})}}), UserError);
  EXPECT_THROW(run_op({.op = "matmul", .inputs = {f32({2, 3, 4}), f32({3, 4, 5})}}), UserError);
  EXPECT_THROW(run_op({.op = "matmul", .inputs = {f32({}), f32({5, 6})}}), UserError);
  EXPECT_THROW(run_op({.op = "matmul", .inputs = {{DType::kI32, {3, 4}}, f32({4, 6})}}), UserError);
  EXPECT_THROW(run_op({.op = "matmul", .inputs = {f32({4}), f32({4, 6})}, .attrs = {{"trans_a", std::int64_t{1}}}}),
               UserError);
}

// Bits depend on neither the number of threads nor, for a row, on the other rows.
TEST(Matmul, BitsDoNotDependOnThreads) {
  const int threads = omp_get_max_threads();
  for (const char* kernel : {"onednn", "simd"}) {
    for (const std::int64_t trans_a : {0, 1}) {
      const OpCase c = {.op = "matmul",
                        .inputs = {f32(trans_a != 0 ? Shape{515, 96} : Shape{96, 515}), f32({515, 130})},
                        .attrs = {{"trans_a", trans_a}}};
      omp_set_num_threads(1);
      const auto one = run_op(c, kernel);
      omp_set_num_threads(2);
      const auto two = run_op(c, kernel);
      omp_set_num_threads(3);
      const auto three = run_op(c, kernel);
      omp_set_num_threads(threads);
      EXPECT_EQ(one[0].data, two[0].data) << kernel;
      EXPECT_EQ(one[0].data, three[0].data) << kernel;
    }
  }
}

}  // namespace
}  // namespace neap

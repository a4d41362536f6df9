#include <omp.h>

#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

OpCase norm_case(const Shape& x, std::int64_t groups) {
  return {.op = "group_norm", .inputs = {f32(x), f32({x[-1]}), f32({x[-1]})}, .attrs = {{"groups", groups}}};
}

TEST(GroupNorm, KernelsAgreeAndGradientHolds) {
  check_op(norm_case({2, 3, 4, 16}, 4));
  check_op(norm_case({3, 7, 6}, 2));
  check_op(norm_case({1, 9, 15, 34}, 1));
  check_op(norm_case({2, 70, 3}, 3));  // instance norm
  check_op(norm_case({2, 5, 5, 17}, 17));
  check_op(norm_case({70, 2, 6}, 3));
}

TEST(GroupNorm, ScaleAndBiasMayBeMissing) {
  OpCase c = norm_case({2, 4, 8}, 2);
  c.absent = {1, 2};
  check_op(c);
}

TEST(GroupNorm, GroupsWithDifferentMeans) {
  OpCase c = norm_case({2, 6, 6, 8}, 2);
  c.given[0] = random_tensor(c.inputs[0], 3);
  for (std::int64_t i = 0; i < c.inputs[0].elements(); ++i) c.given[0].floats()[i] += static_cast<float>(i % 8) * 100;
  c.tolerance = 5e-5;
  check_kernels(c);
}

TEST(GroupNorm, BitsDoNotDependOnThreads) {
  const TensorType x = f32({3, 100, 48});
  const OpCase c{
      .op = "group_norm_grad", .inputs = {x, x, f32({3, 4}), f32({3, 4}), f32({48})}, .attrs = {{"groups", 4}}};
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto one = run_op(c);
  omp_set_num_threads(3);
  const auto three = run_op(c);
  omp_set_num_threads(before);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].data, three[i].data) << "output " << i;
}

TEST(GroupNorm, BadInput) {
  EXPECT_THROW(run_op(norm_case({2, 3, 16}, 5)), UserError);
  EXPECT_THROW(run_op(norm_case({2, 16}, 4)), UserError);
  OpCase c = norm_case({2, 3, 16}, 4);
  c.inputs[1] = f32({4});
  EXPECT_THROW(run_op(c), UserError);
  c = norm_case({2, 3, 16}, 4);
  c.attrs = {};
  EXPECT_THROW(run_op(c), UserError);
}

}  // namespace
}  // namespace neap

#include <omp.h>

#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

OpCase norm_case(const Shape& x, const Shape& normalised, std::int64_t axis) {
  return {.op = "layer_norm", .inputs = {f32(x), f32(normalised), f32(normalised)}, .attrs = {{"axis", axis}}};
}

TEST(LayerNorm, KernelsAgreeAndGradientHolds) {
  check_op(norm_case({4, 33}, {33}, -1));
  check_op(norm_case({2, 3, 5, 16}, {5, 16}, 2));
  check_op(norm_case({3, 70}, {3, 70}, 0));
  check_op(norm_case({150, 7}, {7}, 1));
  check_op(norm_case({5, 2}, {2}, -1));
}

TEST(LayerNorm, ScaleAndBiasMayBeMissing) {
  OpCase c = norm_case({4, 19}, {19}, -1);
  for (const std::vector<std::size_t>& absent : {std::vector<std::size_t>{1, 2}, {1}, {2}}) {
    c.absent = absent;
    check_op(c);
  }
}

TEST(LayerNorm, LargeMeanAndEpsilon) {
  OpCase c = norm_case({3, 130}, {130}, -1);
  c.given[0] = random_tensor(c.inputs[0], 3, 999, 1001);
  c.tolerance = 3e-4;
  check_kernels(c);
  c = norm_case({3, 130}, {130}, -1);
  c.attrs.set("epsilon", 0.5);
  check_op(c);
}

TEST(LayerNorm, BitsDoNotDependOnThreads) {
  const TensorType x = f32({100, 48});
  const OpCase c{.op = "layer_norm_grad", .inputs = {x, x, f32({100}), f32({100}), f32({48})}};
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto one = run_op(c);
  omp_set_num_threads(3);
  const auto three = run_op(c);
  omp_set_num_threads(before);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].data, three[i].data) << "output " << i;
}

TEST(LayerNorm, GradientsAreAddedToASum) {
  for (const std::int64_t rows : {3, 70}) {
    const TensorType x = f32({rows, 37});
    const OpCase alone{.op = "layer_norm_grad", .inputs = {x, x, f32({rows}), f32({rows}), f32({37})}};
    OpCase c = alone;
    c.op = "layer_norm_grad_sum";
    c.inputs.push_back(x);
    check_kernels(c);
    const auto apart = run_op(alone);
    const HostTensor sum = random_tensor(x, 5);
    c.given[5] = sum;
    const auto given = run_op(c);
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      ASSERT_EQ(given[0].floats()[i], sum.floats()[i] + apart[0].floats()[i]) << i;
    }
    for (const std::size_t o : {1, 2}) EXPECT_EQ(given[o].data, apart[o].data);
  }
  EXPECT_THROW(run_op({.op = "layer_norm_grad_sum",
                       .inputs = {f32({3, 4}), f32({3, 4}), f32({3}), f32({3}), f32({4}), f32({4})}}),
               UserError);
}

TEST(LayerNorm, BadInput) {
  EXPECT_THROW(run_op(norm_case({4, 33}, {32}, -1)), UserError);
  EXPECT_THROW(run_op(norm_case({4, 33}, {33}, 2)), UserError);
  EXPECT_THROW(run_op(norm_case({4, 33}, {33}, 0)), UserError);
  OpCase c = norm_case({4, 33}, {33}, -1);
  c.attrs.set("epsilon", -1.0);
  EXPECT_THROW(run_op(c), UserError);
}

}  // namespace
}  // namespace neap

#include "ops/matmul/matmul.h"

namespace neap::ops {
namespace {

// Axis `i` of `out` counted in matrices of x (whose last two axes are the matrix): 0 where x is broadcast.
std::int64_t step_of(const Shape& x, const Shape& out, int i) {
  const int at = i - (out.rank() - x.rank());
  if (at < 0 || x.size(at) == 1) return 0;
  std::int64_t step = 1;
  for (int j = at + 1; j < x.rank(); ++j) step *= x.size(j);
  return step;
}

void append(std::vector<BatchAxis>& batch, const BatchAxis& axis) {
  if (axis.size == 1) return;
  if (!batch.empty()) {
    BatchAxis& outer = batch.back();
    if (outer.a_step == axis.a_step * axis.size && outer.b_step == axis.b_step * axis.size) {
      outer = {outer.size * axis.size, axis.a_step, axis.b_step};
      return;
    }
  }
  batch.push_back(axis);
}

// Products that share B are one product with more rows.
void join_rows(MatmulPlan& plan) {
  if (plan.trans_a || plan.batch.empty()) return;
  const BatchAxis last = plan.batch.back();
  if (last.b_step != 0 || last.a_step != plan.m * plan.k) return;
  plan.m *= last.size;
  plan.batch.pop_back();
}

// A vector stands for one row (left) or one column (right).
Shape as_matrix(const Shape& shape, bool left) {
  if (shape.rank() != 1) return shape;
  return left ? Shape{1, shape[0]} : Shape{shape[0], 1};
}

std::int64_t offset(const std::vector<BatchAxis>& batch, std::int64_t index, std::int64_t BatchAxis::*step) {
  std::int64_t at = 0;
  for (std::size_t i = batch.size(); i-- > 0;) {
    at += index % batch[i].size * (batch[i].*step);
    index /= batch[i].size;
  }
  return at;
}

}  // namespace

std::int64_t MatmulPlan::batches() const {
  std::int64_t count = 1;
  for (const BatchAxis& axis : batch) count *= axis.size;
  return count;
}

std::int64_t MatmulPlan::a_offset(std::int64_t index) const { return offset(batch, index, &BatchAxis::a_step); }
std::int64_t MatmulPlan::b_offset(std::int64_t index) const { return offset(batch, index, &BatchAxis::b_step); }

MatmulPlan matmul_plan(const OpCall& call) {
  const Shape a = as_matrix(call.shape(0), true);
  const Shape b = as_matrix(call.shape(1), false);
  MatmulPlan plan{.trans_a = call.attrs.integer("trans_a", 0) != 0,
                  .trans_b = call.attrs.integer("trans_b", 0) != 0,
                  .alpha = static_cast<float>(call.attrs.real("alpha", 1))};
  plan.m = a.size(plan.trans_a ? -1 : -2);
  plan.k = a.size(plan.trans_a ? -2 : -1);
  plan.n = b.size(plan.trans_b ? -2 : -1);
  Shape out = broadcast(a.rank() > 2 ? Shape(std::vector<Dim>(a.begin(), a.end() - 2)) : Shape{},
                        b.rank() > 2 ? Shape(std::vector<Dim>(b.begin(), b.end() - 2)) : Shape{});
  const int axes = out.rank();
  out.push_back(plan.m);
  out.push_back(plan.n);
  for (int i = 0; i < axes; ++i) {
    append(plan.batch, {.size = out.size(i), .a_step = step_of(a, out, i), .b_step = step_of(b, out, i)});
  }
  join_rows(plan);
  return plan;
}

}  // namespace neap::ops

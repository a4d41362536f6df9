#pragma once

#include <vector>

#include "ops/kernel.h"
#include "ops/reduce/reduce_simd.h"

namespace neap::ops {

// Which axes a call of a reduction takes away: attribute `axes` (all when missing or empty; negative ones count from
// the end) and `keepdims` (1 when missing).
struct Reduction {
  std::vector<bool> is_reduced;
  bool keeps_dims = true;

  Reduction(const Attrs& attrs, int rank);  // UserError for an axis that is not there or is named twice
  Shape result(const Shape& src) const;     // as the op gives it
  Shape kept(const Shape& src) const;       // with a 1 for each reduced axis: it broadcasts back to src
};

// The axes along which `src` was broadcast from `dst`; UserError when it was not.
std::vector<bool> broadcast_axes(const Shape& src, const Shape& dst);

// `shape` is static. UserError when kept and reduced axes alternate too often.
ReducePlan reduce_plan(const Shape& shape, const std::vector<bool>& is_reduced);

ReduceFn reduce_fn(std::string_view op);  // of reduce_max and of reduce_max_grad: kMax

[[gnu::weak]] Prepared reduce_cuda(const OpCall& call);
[[gnu::weak]] Prepared sum_to_cuda(const OpCall& call);
[[gnu::weak]] Prepared reduce_grad_cuda(const OpCall& call);
[[gnu::weak]] Prepared reduce_sum_grad_cuda(const OpCall& call);
[[gnu::weak]] Prepared square_sum_cuda(const OpCall& call);
[[gnu::weak]] Prepared clip_scale_cuda(const OpCall& call);
Prepared reduce_ref(const OpCall& call);
Prepared sum_to_ref(const OpCall& call);
Prepared reduce_grad_ref(const OpCall& call);
Prepared reduce_sum_grad_ref(const OpCall& call);

Values reduce_gradient(GradientCall& c);

}  // namespace neap::ops

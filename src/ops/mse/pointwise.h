#pragma once

#include "ops/kernel.h"
#include "ops/mse/pointwise_simd.h"

namespace neap::ops {

struct PointwiseCall {
  std::int64_t n;
  float beta;
  double scale;  // 1, or 1 / n for the mean
  bool by_y;     // which input's gradient
};
PointwiseCall pointwise_call(const OpCall& call, std::size_t x);

[[gnu::weak]] Prepared pointwise_cuda(const OpCall& call, PointLoss loss);
[[gnu::weak]] Prepared pointwise_grad_cuda(const OpCall& call, PointLoss loss);
Prepared pointwise_ref(const OpCall& call, PointLoss loss);
Prepared pointwise_grad_ref(const OpCall& call, PointLoss loss);

}  // namespace neap::ops

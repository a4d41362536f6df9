#pragma once

#include "ops/kernel.h"

namespace neap::ops {

// Rows of channels; `size` of them, around each, are summed.
struct LrnShape {
  std::int64_t rows = 0, channels = 0, size = 1;
  double alpha = 0, beta = 0, bias = 0;
};

[[gnu::weak]] Prepared lrn_cuda(const LrnShape& shape);
[[gnu::weak]] Prepared lrn_grad_cuda(const LrnShape& shape);

}  // namespace neap::ops

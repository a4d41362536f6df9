// gemm(a, b, c?; alpha = 1, beta = 1, trans_a = 0, trans_b = 0) = alpha op(a) op(b) + beta c, c broadcast.
#pragma once

#include "ops/kernel.h"

namespace neap::ops {

struct GemmCall {
  std::int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  float alpha = 1, beta = 1;
  bool has_c = false;
  std::int64_t c_row = 0, c_column = 0;  // strides of c, 0 where it is broadcast

  // c is a row that is added as it is.
  bool is_bias() const { return has_c && beta == 1 && alpha == 1 && c_row == 0 && c_column == 1; }
};
GemmCall gemm_call(const OpCall& call);
// out = beta * c; all of it.
void spread_c(const GemmCall& g, const float* c, float* out);

[[gnu::weak]] Prepared gemm_onednn(const OpCall& call);
[[gnu::weak]] Prepared gemm_cuda(const OpCall& call);
Prepared gemm_own(const OpCall& call);
Prepared gemm_ref(const OpCall& call);

}  // namespace neap::ops

#include "ops/matmul/matmul.h"

namespace neap::ops {

Prepared matmul_ref(const OpCall& call) {
  return function_kernel([p = matmul_plan(call)](const Buffers& buffers) {
    const Matrix a = dense_matrix(p.m, p.k, p.trans_a);
    const Matrix b = dense_matrix(p.k, p.n, p.trans_b);
    float* out = buffers.out<float>(0);
    for (std::int64_t t = 0; t < p.batches(); ++t) {
      const float* x = buffers.in<float>(0) + p.a_offset(t);
      const float* y = buffers.in<float>(1) + p.b_offset(t);
      for (std::int64_t i = 0; i < p.m; ++i) {
        for (std::int64_t j = 0; j < p.n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < p.k; ++l) {
            sum += static_cast<double>(x[i * a.row + l * a.column]) * y[l * b.row + j * b.column];
          }
          *out++ = static_cast<float>(p.alpha * sum);
        }
      }
    }
  });
}

}  // namespace neap::ops

#include "ops/elementwise/element.h"
#include "ops/matmul/matmul.h"

namespace neap::ops {

namespace {

template <class T>
Prepared kernel(const MatmulPlan& plan) {
  using Sum = std::conditional_t<kIsInteger<T>, std::uint64_t, double>;
  return function_kernel([p = plan](const Buffers& buffers) {
    const Matrix a = dense_matrix(p.m, p.k, p.trans_a);
    const Matrix b = dense_matrix(p.k, p.n, p.trans_b);
    T* out = buffers.out<T>(0);
    for (std::int64_t t = 0; t < p.batches(); ++t) {
      const T* x = buffers.in<T>(0) + p.a_offset(t);
      const T* y = buffers.in<T>(1) + p.b_offset(t);
      for (std::int64_t i = 0; i < p.m; ++i) {
        for (std::int64_t j = 0; j < p.n; ++j) {
          Sum sum = 0;
          for (std::int64_t l = 0; l < p.k; ++l) {
            sum += static_cast<Sum>(x[i * a.row + l * a.column]) * static_cast<Sum>(y[l * b.row + j * b.column]);
          }
          if constexpr (kIsInteger<T>) {
            *out++ = static_cast<T>(sum);
          } else {
            *out++ = static_cast<T>(p.alpha * sum);
          }
        }
      }
    }
  });
}

}  // namespace

Prepared matmul_ref(const OpCall& call) {
  return with_type(call.in(0).dtype, [&]<class T>(Type<T>) { return kernel<T>(matmul_plan(call)); });
}

}  // namespace neap::ops

#include "ops/linear/linear.h"
#include "ops/matmul/product_cuda.h"

namespace neap::ops {
namespace {

bool is_empty(const LinearShape& s) { return s.rows == 0 || s.in == 0 || s.out == 0; }

}  // namespace

Prepared linear_cuda(const OpCall& call) {
  const LinearShape s = linear_shape(call);
  if (is_empty(s)) return Declined{"nothing to multiply"};
  return product_kernel({.m = s.rows,
                         .n = s.out,
                         .k = s.in,
                         .a = dense_matrix(s.rows, s.in, false),
                         .b = dense_matrix(s.in, s.out, !s.transposed),
                         .bias = s.bias});
}

// [out,in] = dy^T x, or [in,out] = x^T dy.
Prepared linear_grad_cuda(const OpCall& call) {
  const LinearShape s = linear_grad_shape(call);
  if (is_empty(s)) return Declined{"nothing to multiply"};
  const std::int64_t m = s.transposed ? s.in : s.out;
  const std::int64_t n = s.transposed ? s.out : s.in;
  const CudaProductShape shape = {
      .m = m, .n = n, .k = s.rows, .a = dense_matrix(m, s.rows, true), .b = dense_matrix(s.rows, n, false)};
  return weight_product_kernel(shape, s.transposed ? 0 : 1, s.out);
}

}  // namespace neap::ops

#include "ops/linear/linear.h"
#include "ops/matmul/product_cuda.h"
#include "ops/product_math.h"

namespace neap::ops {
namespace {

// Of an op on bf16: all of these tensors are; anything else is converted around it.
bool are_all(const OpCall& call, std::initializer_list<std::size_t> inputs, DType type) {
  for (const std::size_t i : inputs) {
    if (call.has(i) && call.in(i).dtype != type) return false;
  }
  return true;
}

constexpr const char* kMixture = "a mixture of types";

bool is_empty(const LinearShape& s) { return s.rows == 0 || s.in == 0 || s.out == 0; }

const char* reason_against_weight(const OpCall& call, const LinearShape& s) {
  if (is_empty(s)) return "nothing to multiply";
  const DType type = call.in(0).dtype;
  if (!are_all(call, {0, 1}, type)) return kMixture;
  return type == DType::kBF16 && s.out % 8 != 0 ? "bf16 needs widths that are multiples of 8" : nullptr;
}

// [out,in] = dy^T x, or [in,out] = x^T dy.
CudaProductShape weight_shape(const OpCall& call, const LinearShape& s) {
  const std::int64_t m = s.transposed ? s.in : s.out;
  const std::int64_t n = s.transposed ? s.out : s.in;
  return {.m = m,
          .n = n,
          .k = s.rows,
          .a = dense_matrix(m, s.rows, true),
          .b = dense_matrix(s.rows, n, false),
          .in = call.in(0).dtype,
          .tf32 = is_tf32(call.attrs)};
}

}  // namespace

Prepared linear_cuda(const OpCall& call) {
  const LinearShape s = linear_shape(call);
  if (is_empty(s)) return Declined{"nothing to multiply"};
  const DType type = call.in(0).dtype;
  if (!are_all(call, {0, 1, 2}, type) || call.outputs[0].dtype != type) return Declined{kMixture};
  return product_kernel({.m = s.rows,
                         .n = s.out,
                         .k = s.in,
                         .a = dense_matrix(s.rows, s.in, false),
                         .b = dense_matrix(s.in, s.out, !s.transposed),
                         .bias = s.bias,
                         .in = type,
                         .out = type,
                         .tf32 = is_tf32(call.attrs)});
}

Prepared linear_grad_cuda(const OpCall& call) {
  const LinearShape s = linear_grad_shape(call);
  if (const char* why = reason_against_weight(call, s)) return Declined{why};
  return weight_product_kernel(weight_shape(call, s), s.transposed ? 0 : 1, s.out);
}

Prepared linear_add_cuda(const OpCall& call) {
  const LinearShape s = linear_grad_shape(call);
  if (const char* why = reason_against_weight(call, s)) return Declined{why};
  CudaProductShape shape = weight_shape(call, s);
  shape.adds = true;
  return adding_product_kernel(shape, s.transposed ? 0 : 1);
}

}  // namespace neap::ops

// By our own gemm.
#include <omp.h>

#include "device/cpu/bf16.h"
#include "device/cpu/gemm.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_simd.h"

namespace neap::ops {

Prepared linear_own(const OpCall& call) {
  const LinearShape s = linear_shape(call);
  const GemmShape shape = {.m = s.rows, .n = s.out, .k = s.in};
  const auto run = [s, shape](const Buffers& b) {
    auto* y = b.out<float>(0);
    if (s.bias) linear_table().fill_rows(b.in<float>(2), y, s.rows, s.out);
    gemm_parallel(shape, {b.in<float>(0), s.in, false}, {b.in<float>(1), s.transposed ? s.out : s.in, !s.transposed},
                  {y, s.out, s.bias}, reinterpret_cast<float*>(b.workspace));
  };
  return function_kernel(run, static_cast<std::int64_t>(gemm_scratch_bytes(shape, omp_get_max_threads())));
}

// [out,in] = dy^T x, or [in,out] = x^T dy.
Prepared linear_grad_own(const OpCall& call) {
  const LinearShape s = linear_grad_shape(call);
  const bool narrow = call.in(0).dtype == DType::kBF16;
  const bool is_sum_wide = call.outputs[0].dtype == DType::kF32 && call.outputs[1].dtype == DType::kF32;
  if (call.in(1).dtype != call.in(0).dtype || !is_sum_wide || (narrow && !has_bf16_products())) {
    return Declined{"no product of these types"};
  }
  const GemmShape shape = {
      .m = s.transposed ? s.in : s.out, .n = s.transposed ? s.out : s.in, .k = s.rows, .bf16 = narrow};
  const auto run = [s, shape](const Buffers& b) {
    const GemmOperand left = {b.in<float>(s.transposed ? 0 : 1), shape.m, true, shape.bf16};
    const GemmOperand right = {b.in<float>(s.transposed ? 1 : 0), shape.n, false, shape.bf16};
    auto* scratch = reinterpret_cast<float*>(b.workspace);
    if (b.out<float>(0) != nullptr) gemm_parallel(shape, left, right, {b.out<float>(0), shape.n, false}, scratch);
    auto* sums = b.out<float>(1);
    if (sums == nullptr) return;
    if (shape.bf16) {
      linear_table().column_sums_bf16(b.in<std::uint16_t>(1), sums, s.rows, s.out);
    } else {
      linear_table().column_sums(b.in<float>(1), sums, s.rows, s.out);
    }
  };
  return function_kernel(run, static_cast<std::int64_t>(gemm_scratch_bytes(shape, omp_get_max_threads())));
}

}  // namespace neap::ops

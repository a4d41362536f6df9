// linear_add_weight(x [...,in], dy [...,out], sum [out,in]; transposed) -> sum + linear_grad_weight(x, dy), in place:
// what a part of a batch adds to a weight's gradient takes no memory of its own. transposed=1: sum is [in,out].
#include <omp.h>

#include <cstring>

#include "device/cpu/gemm.h"
#include "ops/linear/linear.h"
#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  for (const std::size_t i : {0, 1, 2}) need_f32(call, i);
  const Shape& sum = call.shape(2);
  const bool transposed = call.attrs.integer("transposed", 0) != 0;
  need(sum.rank() == 2, "the sum must have two axes");
  const Shape& x = call.shape(0);
  const Shape& dy = call.shape(1);
  need(x.rank() >= 1 && may_equal(x[-1], sum[transposed ? 0 : 1]), "the first input does not fit the sum");
  need(dy.rank() >= 1 && may_equal(dy[-1], sum[transposed ? 1 : 0]), "the second input does not fit the sum");
  need_same_shape(leading(x, 1), leading(dy, 1), "the inputs must have the same rows");
  return {call.in(2)};
}

Prepared simd(const OpCall& call) {
  const LinearShape s = linear_grad_shape(call);
  const GemmShape shape = {.m = s.transposed ? s.in : s.out, .n = s.transposed ? s.out : s.in, .k = s.rows};
  const auto bytes = static_cast<std::size_t>(call.in(2).bytes());
  return function_kernel(
      [s, shape, bytes](const Buffers& b) {
        if (b.outputs[0] != b.inputs[2]) std::memcpy(b.outputs[0], b.inputs[2], bytes);
        gemm_parallel(shape, {b.in<float>(s.transposed ? 0 : 1), shape.m, true},
                      {b.in<float>(s.transposed ? 1 : 0), shape.n, false}, {b.out<float>(0), shape.n, true},
                      reinterpret_cast<float*>(b.workspace));
      },
      static_cast<std::int64_t>(gemm_scratch_bytes(shape, omp_get_max_threads())));
}

Prepared ref(const OpCall& call) {
  return function_kernel([s = linear_grad_shape(call)](const Buffers& b) {
    for (std::int64_t o = 0; o < s.out; ++o) {
      for (std::int64_t i = 0; i < s.in; ++i) {
        const std::int64_t at = s.transposed ? i * s.out + o : o * s.in + i;
        double sum = b.in<float>(2)[at];
        for (std::int64_t r = 0; r < s.rows; ++r) {
          sum += static_cast<double>(b.in<float>(0)[r * s.in + i]) * b.in<float>(1)[r * s.out + o];
        }
        b.out<float>(0)[at] = static_cast<float>(sum);
      }
    }
  });
}

double flops(const OpCall& call) {
  const LinearShape s = linear_grad_shape(call);
  return 2.0 * static_cast<double>(s.rows) * static_cast<double>(s.in) * static_cast<double>(s.out);
}

constexpr KernelEntry kKernels[] = {{"cublaslt", DeviceKind::kCuda, linear_add_cuda, true},
                                    {"simd", DeviceKind::kCpu, simd},
                                    {"ref", DeviceKind::kCpu, ref}};
constexpr InOut kInPlace[] = {{2, 0}};

}  // namespace

extern constinit const OpDef linear_add_weight = {.name = "linear_add_weight",
                                                  .infer = infer,
                                                  .kernels = kKernels,
                                                  .kernel_count = std::size(kKernels),
                                                  .flops = flops,
                                                  .in_place = kInPlace};

}  // namespace neap::ops

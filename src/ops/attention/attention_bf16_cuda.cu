// Attention of bf16 by warps (attention_bf16.cuh), for cards that have no faster way.
#include "ops/attention/attention_bf16.cuh"
#include "ops/attention/attention_launch.cuh"
#include "ops/cuda_kernel.h"

namespace neap::ops {
namespace {

void run_delta(const AttentionTensors& t, cudaStream_t stream) {
  const std::int64_t lines = t.s.batch * t.s.heads * t.s.queries;
  delta_kernel<<<static_cast<unsigned>((lines * 8 + kThreads - 1) / kThreads), kThreads, 0, stream>>>(t);
  check_launch("attention_grad");
}

}  // namespace

Prepared attention_bf16_cuda(const OpCall& call) {
  const AttentionShape shape = attention_shape(call, kForwardInputs);
  if (const char* why = reason_against_bf16(call, kForwardInputs, shape)) return Declined{why};
  return cuda_kernel([s = shape, packed = is_packed(call, kForwardInputs)](const Buffers& b, cudaStream_t stream) {
    const dim3 grid = attention_grid(128, s.queries, s.heads, s.batch);
    forward_kernel<4, 2><<<grid, 128, 0, stream>>>(forward_tensors(b, s, packed));
    check_launch("attention");
  });
}

Prepared attention_grad_bf16_cuda(const OpCall& call) {
  const AttentionShape shape = attention_shape(call, kBackwardInputs);
  if (const char* why = reason_against_bf16(call, kBackwardInputs, shape)) return Declined{why};
  return cuda_kernel(
      [s = shape, packed = is_packed(call, kBackwardInputs)](const Buffers& b, cudaStream_t stream) {
        const AttentionTensors t = backward_tensors(b, s, packed);
        run_delta(t, stream);
        if (t.dk != nullptr || t.dv != nullptr) {
          keys_kernel<4, 3><<<attention_grid(64, s.keys, s.kv_heads, s.batch), 128, 0, stream>>>(t);
          check_launch("attention_grad");
        }
        if (t.dq == nullptr) return;
        queries_kernel<4, 1, 3><<<attention_grid(64, s.queries, s.heads, s.batch), 128, 0, stream>>>(t);
        check_launch("attention_grad");
      },
      shape.batch * shape.heads * shape.queries * static_cast<std::int64_t>(sizeof(float)));
}

}  // namespace neap::ops

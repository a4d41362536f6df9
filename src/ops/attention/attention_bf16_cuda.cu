// Attention of bf16: which calls the kernels of attention_bf16.cuh take, and how they are launched.
#include "ops/attention/attention.h"
#include "ops/attention/attention_bf16.cuh"
#include "ops/cuda_kernel.h"

namespace neap::ops {
namespace {

// A block has `own` rows.
dim3 grid_of(int own, std::int64_t rows, std::int64_t heads, std::int64_t batch) {
  return {static_cast<unsigned>((rows + own - 1) / own), static_cast<unsigned>(heads), static_cast<unsigned>(batch)};
}

// Why these kernels cannot do it.
const char* reason_against(const OpCall& call, const AttentionInputs& in, const AttentionShape& s) {
  for (std::size_t i = in.q; i < in.q + 3; ++i) {
    if (call.has(i) && call.in(i).dtype != DType::kBF16) return "bf16 only";
  }
  if (call.outputs[0].dtype != DType::kBF16) return "bf16 only";
  if (s.depth != kDepth || s.mask != MaskKind::kNone || s.drop > 0) return "heads of 64 without mask and dropout only";
  if (s.batch * s.heads * s.queries * s.keys == 0) return "nothing to attend to";
  constexpr std::int64_t kFar = 1 << 24;  // positions are counted in 32 bits
  if (s.queries > kFar || s.keys > kFar || s.offset > kFar || s.offset < -kFar) return "too long";
  return s.heads < 65536 && s.batch < 65536 ? nullptr : "too many heads";
}

}  // namespace

Prepared attention_bf16_cuda(const OpCall& call) {
  const AttentionShape shape = attention_shape(call, kForwardInputs);
  if (const char* why = reason_against(call, kForwardInputs, shape)) return Declined{why};
  return cuda_kernel([s = shape, packed = is_packed(call, kForwardInputs)](const Buffers& b, cudaStream_t stream) {
    const auto in = heads_of(b.in<Bf16>(0), b.in<Bf16>(1), b.in<Bf16>(2), packed, s);
    const AttentionTensors t{.s = s, .q = in.q, .k = in.k, .v = in.v, .lse = b.out<float>(1), .y = b.out<Bf16>(0)};
    forward_kernel<4, 2><<<grid_of(128, s.queries, s.heads, s.batch), 128, 0, stream>>>(t);
    check_launch("attention");
  });
}

Prepared attention_grad_bf16_cuda(const OpCall& call) {
  const AttentionShape shape = attention_shape(call, kBackwardInputs);
  if (const char* why = reason_against(call, kBackwardInputs, shape)) return Declined{why};
  if (call.in(0).dtype != DType::kBF16 || call.in(4).dtype != DType::kBF16) return Declined{"bf16 only"};
  const std::int64_t lines = shape.batch * shape.heads * shape.queries;
  return cuda_kernel(
      [s = shape, lines, packed = is_packed(call, kBackwardInputs)](const Buffers& b, cudaStream_t stream) {
        const auto in = heads_of(b.in<Bf16>(1), b.in<Bf16>(2), b.in<Bf16>(3), packed, s);
        const auto out = packed ? heads_of<Bf16>(b.out<Bf16>(0), nullptr, nullptr, true, s)
                                : heads_of(b.out<Bf16>(0), b.out<Bf16>(1), b.out<Bf16>(2), false, s);
        const AttentionTensors t{.s = s,
                                 .q = in.q,
                                 .k = in.k,
                                 .v = in.v,
                                 .dout = b.in<Bf16>(0),
                                 .out = b.in<Bf16>(4),
                                 .lse = const_cast<float*>(b.in<float>(5)),
                                 .delta = reinterpret_cast<float*>(b.workspace),
                                 .dq = out.q,
                                 .dk = out.k,
                                 .dv = out.v};
        delta_kernel<<<static_cast<unsigned>((lines * 8 + kThreads - 1) / kThreads), kThreads, 0, stream>>>(t);
        check_launch("attention_grad");
        if (t.dk != nullptr || t.dv != nullptr) {
          keys_kernel<4, 3><<<grid_of(64, s.keys, s.kv_heads, s.batch), 128, 0, stream>>>(t);
          check_launch("attention_grad");
        }
        if (t.dq == nullptr) return;
        queries_kernel<4, 1, 3><<<grid_of(64, s.queries, s.heads, s.batch), 128, 0, stream>>>(t);
        check_launch("attention_grad");
      },
      lines * static_cast<std::int64_t>(sizeof(float)));
}

}  // namespace neap::ops

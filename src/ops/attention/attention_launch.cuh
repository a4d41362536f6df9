// What the kernels of attention of bf16 have in common on the host's side.
#pragma once

#include "ops/attention/attention.h"
#include "ops/attention/attention_span.cuh"

namespace neap::ops {

// A block has `own` rows.
inline dim3 attention_grid(int own, std::int64_t rows, std::int64_t heads, std::int64_t batch) {
  return {static_cast<unsigned>((rows + own - 1) / own), static_cast<unsigned>(heads), static_cast<unsigned>(batch)};
}

// Why these kernels cannot do it.
inline const char* reason_against_bf16(const OpCall& call, const AttentionInputs& in, const AttentionShape& s) {
  for (std::size_t i = in.q; i < in.q + 3; ++i) {
    if (call.has(i) && call.in(i).dtype != DType::kBF16) return "bf16 only";
  }
  if (call.outputs[0].dtype != DType::kBF16) return "bf16 only";
  const bool is_backward = in.q > 0;
  if (is_backward && (call.in(0).dtype != DType::kBF16 || call.in(4).dtype != DType::kBF16)) return "bf16 only";
  if (s.depth != kDepth || s.mask != MaskKind::kNone || s.drop > 0) return "heads of 64 without mask and dropout only";
  if (s.batch * s.heads * s.queries * s.keys == 0) return "nothing to attend to";
  constexpr std::int64_t kFar = 1 << 24;  // positions are counted in 32 bits
  if (s.queries > kFar || s.keys > kFar || s.offset > kFar || s.offset < -kFar) return "too long";
  return s.heads < 65536 && s.batch < 65536 ? nullptr : "too many heads";
}

inline AttentionTensors forward_tensors(const Buffers& b, const AttentionShape& s, bool packed) {
  const auto in = heads_of(b.in<Bf16>(0), b.in<Bf16>(1), b.in<Bf16>(2), packed, s);
  return {.s = s, .q = in.q, .k = in.k, .v = in.v, .lse = b.out<float>(1), .y = b.out<Bf16>(0)};
}

// `delta` is the workspace: a float a query and head.
inline AttentionTensors backward_tensors(const Buffers& b, const AttentionShape& s, bool packed) {
  const auto in = heads_of(b.in<Bf16>(1), b.in<Bf16>(2), b.in<Bf16>(3), packed, s);
  const auto out = packed ? heads_of<Bf16>(b.out<Bf16>(0), nullptr, nullptr, true, s)
                          : heads_of(b.out<Bf16>(0), b.out<Bf16>(1), b.out<Bf16>(2), false, s);
  return {.s = s,
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
}

}  // namespace neap::ops

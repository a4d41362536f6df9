#pragma once

#include "ops/attention/attention_simd.h"
#include "ops/kernel.h"

namespace neap::ops {

// Where an op's inputs are: attention (q, k, v, mask, rng), attention_grad (dout, q, k, v, out, lse, mask, rng).
struct AttentionInputs {
  std::size_t q, mask, rng;
};
inline constexpr AttentionInputs kForwardInputs = {.q = 0, .mask = 3, .rng = 4};
inline constexpr AttentionInputs kBackwardInputs = {.q = 1, .mask = 6, .rng = 7};

// Inputs k and v are not given: q is all three, [batch, time, 3, heads, depth].
inline bool is_packed(const OpCall& call, const AttentionInputs& at) {
  return !call.has(at.q + 1) && !call.has(at.q + 2);
}

struct AttentionTypes {
  Dim batch, heads, queries, keys, depth;
};
// UserError unless q, k, v, mask, rng and the attributes fit each other.
AttentionTypes check_attention(const OpCall& call, const AttentionInputs& at);

// Of a call with static shapes.
AttentionShape attention_shape(const OpCall& call, const AttentionInputs& at);

// q, k and v, apart or out of one tensor.
template <class T>
struct Heads {
  T *q, *k, *v;
};
template <class T>
Heads<T> heads_of(T* q, T* k, T* v, bool packed, const AttentionShape& s) {
  const std::int64_t step = s.heads * s.depth;
  return packed && q != nullptr ? Heads<T>{q, q + step, q + 2 * step} : Heads<T>{q, k, v};
}

AttentionDraw attention_draw(const AttentionShape& s, std::int64_t key, const std::uint64_t* rng);

[[gnu::weak]] Prepared attention_hopper_cuda(const OpCall& call);
[[gnu::weak]] Prepared attention_grad_hopper_cuda(const OpCall& call);
[[gnu::weak]] Prepared attention_bf16_cuda(const OpCall& call);
[[gnu::weak]] Prepared attention_grad_bf16_cuda(const OpCall& call);
[[gnu::weak]] Prepared attention_cuda(const OpCall& call);
[[gnu::weak]] Prepared attention_grad_cuda(const OpCall& call);
Prepared attention_bf16(const OpCall& call);
Prepared attention_grad_bf16(const OpCall& call);
Prepared attention_ref(const OpCall& call);
Prepared attention_grad_ref(const OpCall& call);

}  // namespace neap::ops

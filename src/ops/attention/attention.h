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

// The kernels of a table over the call's buffers.
template <class T>
Prepared attention_by(const AttentionTable<T>& table, const OpCall& call) {
  const AttentionShape shape = attention_shape(call, kForwardInputs);
  const auto run = [s = shape, table, packed = is_packed(call, kForwardInputs),
                    key = call.attrs.integer("key", 0)](const Buffers& b) {
    const auto in = heads_of(b.in<T>(0), b.in<T>(1), b.in<T>(2), packed, s);
    table.run(s, {.q = in.q,
                  .k = in.k,
                  .v = in.v,
                  .mask = b.in<void>(3),
                  .draw = attention_draw(s, key, b.in<std::uint64_t>(4)),
                  .out = b.out<T>(0),
                  .lse = b.out<float>(1),
                  .workspace = reinterpret_cast<float*>(b.workspace)});
  };
  return function_kernel(run, table.floats(shape) * static_cast<std::int64_t>(sizeof(float)));
}

template <class T>
Prepared attention_grad_by(const AttentionGradTable<T>& table, const OpCall& call) {
  const AttentionShape shape = attention_shape(call, kBackwardInputs);
  const auto run = [s = shape, table, packed = is_packed(call, kBackwardInputs),
                    key = call.attrs.integer("key", 0)](const Buffers& b) {
    const auto in = heads_of(b.in<T>(1), b.in<T>(2), b.in<T>(3), packed, s);
    const auto out = packed ? heads_of<T>(b.out<T>(0), nullptr, nullptr, true, s)
                            : heads_of(b.out<T>(0), b.out<T>(1), b.out<T>(2), false, s);
    table.run(s, {.dout = b.in<T>(0),
                  .q = in.q,
                  .k = in.k,
                  .v = in.v,
                  .out = b.in<T>(4),
                  .lse = b.in<float>(5),
                  .mask = b.in<void>(6),
                  .draw = attention_draw(s, key, b.in<std::uint64_t>(7)),
                  .dq = out.q,
                  .dk = out.k,
                  .dv = out.v,
                  .workspace = reinterpret_cast<float*>(b.workspace)});
  };
  return function_kernel(run, table.floats(shape) * static_cast<std::int64_t>(sizeof(float)));
}

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

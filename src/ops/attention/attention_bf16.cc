// Attention of bf16 on the CPU, where it has instructions for products of bf16.
#include "device/cpu/bf16.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_bf16_simd.h"

namespace neap::ops {
namespace {

using Half = std::uint16_t;

bool is_narrow(const OpCall& call, std::initializer_list<std::size_t> inputs) {
  for (const std::size_t i : inputs) {
    if (call.has(i) && call.in(i).dtype != DType::kBF16) return false;
  }
  return true;
}

// What these kernels do not take: null if nothing.
const char* reason(const AttentionShape& s, bool narrow) {
  if (!narrow) return "not all of it is bf16";
  if (!has_bf16_products()) return "this CPU has no products of bf16";
  return s.depth % 2 != 0 ? "the depth is odd" : nullptr;
}

}  // namespace

Prepared attention_bf16(const OpCall& call) {
  const AttentionShape shape = attention_shape(call, kForwardInputs);
  const bool narrow = is_narrow(call, {0, 1, 2}) && call.outputs[0].dtype == DType::kBF16;
  if (const char* why = reason(shape, narrow)) return Declined{why};
  const auto run = [s = shape, packed = is_packed(call, kForwardInputs),
                    key = call.attrs.integer("key", 0)](const Buffers& b) {
    const auto in = heads_of(b.in<Half>(0), b.in<Half>(1), b.in<Half>(2), packed, s);
    attention_bf16_table().run(s, {.q = in.q,
                                   .k = in.k,
                                   .v = in.v,
                                   .mask = b.in<void>(3),
                                   .draw = attention_draw(s, key, b.in<std::uint64_t>(4)),
                                   .out = b.out<Half>(0),
                                   .lse = b.out<float>(1),
                                   .workspace = reinterpret_cast<float*>(b.workspace)});
  };
  return function_kernel(run, attention_bf16_table().floats(shape) * static_cast<std::int64_t>(sizeof(float)));
}

Prepared attention_grad_bf16(const OpCall& call) {
  const AttentionShape shape = attention_shape(call, kBackwardInputs);
  bool narrow = is_narrow(call, {0, 1, 2, 3, 4});
  for (const TensorType& t : call.outputs) narrow = narrow && t.dtype == DType::kBF16;
  if (const char* why = reason(shape, narrow)) return Declined{why};
  const auto run = [s = shape, packed = is_packed(call, kBackwardInputs),
                    key = call.attrs.integer("key", 0)](const Buffers& b) {
    const auto in = heads_of(b.in<Half>(1), b.in<Half>(2), b.in<Half>(3), packed, s);
    const auto out = packed ? heads_of<Half>(b.out<Half>(0), nullptr, nullptr, true, s)
                            : heads_of(b.out<Half>(0), b.out<Half>(1), b.out<Half>(2), false, s);
    attention_bf16_table().grad(s, {.dout = b.in<Half>(0),
                                    .q = in.q,
                                    .k = in.k,
                                    .v = in.v,
                                    .out = b.in<Half>(4),
                                    .lse = b.in<float>(5),
                                    .mask = b.in<void>(6),
                                    .draw = attention_draw(s, key, b.in<std::uint64_t>(7)),
                                    .dq = out.q,
                                    .dk = out.k,
                                    .dv = out.v,
                                    .workspace = reinterpret_cast<float*>(b.workspace)});
  };
  return function_kernel(run, attention_bf16_table().grad_floats(shape) * static_cast<std::int64_t>(sizeof(float)));
}

}  // namespace neap::ops

// attention(q [batch, queries, heads, depth], k, v [batch, keys, kv_heads, depth], mask?, rng?;
//           causal = 0, causal_offset = 0, scale = 1/sqrt(depth), dropout_p = 0, key)
//   -> out [batch, queries, heads, depth], lse [batch, heads, queries].
// Or one input alone, [batch, time, 3, heads, depth]. kv_heads divides heads: groups of heads share keys and values.
// A query that sees no key gives 0 (lse is minus infinity). Causal: query i sees keys 0..i + causal_offset.
#include "ops/attention/attention.h"

#include <algorithm>

#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  const AttentionTypes t = check_attention(call, kForwardInputs);
  return {{DType::kF32, {t.batch, t.queries, t.heads, t.depth}}, {DType::kF32, {t.batch, t.heads, t.queries}}};
}

Types infer_grad(const OpCall& call) {
  const AttentionTypes t = check_attention(call, kBackwardInputs);
  const Shape out = {t.batch, t.queries, t.heads, t.depth};
  for (const std::size_t i : {0UL, 4UL, 5UL}) need_f32(call, i);
  need_same_shape(call.shape(0), out, "the output's gradient must have its shape");
  need_same_shape(call.shape(4), out, "the output must have its shape");
  need_same_shape(call.shape(5), {t.batch, t.heads, t.queries}, "lse must have one number a query");
  if (is_packed(call, kBackwardInputs)) return {call.in(1)};
  return {call.in(1), call.in(2), call.in(3)};
}

Values gradient(GradientCall& c) {
  if (c.dy[1]) throw UserError("the gradient of lse is not defined; differentiate the output");
  if (c.wants(3)) throw UserError("the mask has no gradient; make it a constant or an input");
  const Values inputs = {c.dy[0], c.x(0), c.x(1), c.x(2), c.y(0), c.y(1), c.x(3), c.x(4)};
  Values dx = c.g.add("attention_grad", inputs, c.node.attrs);
  dx.resize(c.node.inputs.size());
  return dx;
}

Prepared simd(const OpCall& call) { return attention_by(attention_table(), call); }
Prepared simd_grad(const OpCall& call) { return attention_grad_by(attention_grad_table(), call); }

// Pairs of a query and a key that it sees.
double pairs(const AttentionShape& s) {
  double seen = 0;
  for (std::int64_t i = 0; i < s.queries; ++i) {
    seen += static_cast<double>(s.causal ? std::clamp<std::int64_t>(i + s.offset + 1, 0, s.keys) : s.keys);
  }
  return seen * static_cast<double>(s.batch * s.heads);
}

// Two products forward; five backward, one of which computes the scores again.
double flops(const OpCall& call) {
  const AttentionShape s = attention_shape(call, kForwardInputs);
  return 4 * pairs(s) * static_cast<double>(s.depth);
}
double flops_grad(const OpCall& call) {
  const AttentionShape s = attention_shape(call, kBackwardInputs);
  return 10 * pairs(s) * static_cast<double>(s.depth);
}

constexpr KernelEntry kForward[] = {{"cuda-wgmma", DeviceKind::kCuda, attention_hopper_cuda, true},
                                    {"cuda-mma", DeviceKind::kCuda, attention_bf16_cuda, true},
                                    {"cuda", DeviceKind::kCuda, attention_cuda},
                                    {"simd-bf16", DeviceKind::kCpu, attention_bf16, true},
                                    {"simd", DeviceKind::kCpu, simd},
                                    {"ref", DeviceKind::kCpu, attention_ref}};
constexpr KernelEntry kBackward[] = {{"cuda-wgmma", DeviceKind::kCuda, attention_grad_hopper_cuda, true},
                                     {"cuda-mma", DeviceKind::kCuda, attention_grad_bf16_cuda, true},
                                     {"cuda", DeviceKind::kCuda, attention_grad_cuda},
                                     {"simd-bf16", DeviceKind::kCpu, attention_grad_bf16, true},
                                     {"simd", DeviceKind::kCpu, simd_grad},
                                     {"ref", DeviceKind::kCpu, attention_grad_ref}};

}  // namespace

extern constinit const OpDef attention = {.name = "attention",
                                          .infer = infer,
                                          .gradient = gradient,
                                          .kernels = kForward,
                                          .kernel_count = std::size(kForward),
                                          .flops = flops,
                                          .optional_outputs = 2,
                                          .random = true};

extern constinit const OpDef attention_grad = {.name = "attention_grad",
                                               .infer = infer_grad,
                                               .kernels = kBackward,
                                               .kernel_count = std::size(kBackward),
                                               .flops = flops_grad,
                                               .optional_outputs = 7,
                                               .random = true};

}  // namespace neap::ops

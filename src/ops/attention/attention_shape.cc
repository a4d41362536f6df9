#include <omp.h>

#include <cmath>

#include "core/random.h"
#include "ops/attention/attention.h"
#include "ops/convert_kernel.h"
#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

AttentionTypes check_packed(const Shape& qkv) {
  need(qkv.rank() == 5 && may_equal(qkv[2], 3), "one input alone must be [batch, time, 3, heads, depth]");
  return {.batch = qkv[0], .heads = qkv[3], .queries = qkv[1], .keys = qkv[1], .depth = qkv[4]};
}

AttentionTypes check_apart(const OpCall& call, const AttentionInputs& at) {
  need_f32(call, at.q + 1);
  need_f32(call, at.q + 2);
  const Shape& q = call.shape(at.q);
  const Shape& k = call.shape(at.q + 1);
  need(q.rank() == 4 && k.rank() == 4, "q, k and v must be [batch, time, heads, depth]");
  need_same_shape(k, call.shape(at.q + 2), "k and v must have the same shape");
  need(may_equal(q[0], k[0]), "q and k must have the same batch");
  need(may_equal(q[3], k[3]), "q and k must have the same depth");
  if (q[2].is_number() && k[2].is_number()) {
    need(k[2].number() > 0 && q[2].number() % k[2].number() == 0, "k's heads must divide q's");
  }
  return {.batch = q[0], .heads = q[2], .queries = q[1], .keys = k[1], .depth = q[3]};
}

void check_mask(const TensorType& mask, const AttentionTypes& t) {
  need(mask.dtype == DType::kF32 || mask.dtype == DType::kBool || mask.dtype == DType::kU8,
       "the mask must be f32 (added to the scores), bool or u8 (0: not seen)");
  const Shape whole = {t.batch, t.heads, t.queries, t.keys};
  need(mask.shape.rank() <= 4, "the mask has more than four axes");
  for (int i = 1; i <= mask.shape.rank(); ++i) {
    if (mask.shape[-i] != Dim(1) && !may_equal(mask.shape[-i], whole[-i])) {
      throw UserError(fmt::format("mask {} does not broadcast to {}", mask.shape.text(), whole.text()));
    }
  }
}

std::int64_t mask_stride(const Shape& mask, int axis) {
  const int at = axis - (4 - mask.rank());
  if (at < 0 || mask.size(at) == 1) return 0;
  std::int64_t step = 1;
  for (int i = at + 1; i < mask.rank(); ++i) step *= mask.size(i);
  return step;
}

HeadStrides dense(std::int64_t tokens, std::int64_t heads, std::int64_t depth) {
  return {.batch = tokens * heads * depth, .token = heads * depth, .head = depth};
}

void set_mask(AttentionShape& s, const TensorType& mask) {
  s.mask = mask.dtype == DType::kF32 ? MaskKind::kAdded : MaskKind::kBytes;
  s.mask_batch = mask_stride(mask.shape, 0);
  s.mask_head = mask_stride(mask.shape, 1);
  s.mask_query = mask_stride(mask.shape, 2);
  s.mask_key = mask_stride(mask.shape, 3);
}

}  // namespace

AttentionTypes check_attention(const OpCall& call, const AttentionInputs& at) {
  need_f32(call, at.q);
  const AttentionTypes t = is_packed(call, at) ? check_packed(call.shape(at.q)) : check_apart(call, at);
  if (call.has(at.mask)) check_mask(call.in(at.mask), t);
  const double drop = call.attrs.real("dropout_p", 0);
  need(drop >= 0 && drop < 1, "dropout_p must lie in [0, 1)");
  if (drop > 0) {
    need(call.has(at.rng) && call.in(at.rng) == TensorType{DType::kU64, {3}},
         "dropout needs the input rng, u64[3]: seed, step, index of the first element");
    call.attrs.integer("key");
  }
  call.attrs.integer("causal", 0);
  call.attrs.integer("causal_offset", 0);
  call.attrs.real("scale", 1);
  return t;
}

AttentionShape attention_shape(const OpCall& call, const AttentionInputs& at) {
  const AttentionTypes t = check_attention(widened(call), at);  // whatever kernels keep it in
  const bool packed = is_packed(call, at);
  AttentionShape s{.batch = t.batch.number(),
                   .heads = t.heads.number(),
                   .kv_heads = packed ? t.heads.number() : call.shape(at.q + 1).size(2),
                   .queries = t.queries.number(),
                   .keys = t.keys.number(),
                   .depth = t.depth.number(),
                   .causal = call.attrs.integer("causal", 0) != 0,
                   .offset = call.attrs.integer("causal_offset", 0),
                   .drop = static_cast<float>(call.attrs.real("dropout_p", 0)),
                   .keep_scale = static_cast<float>(1 / (1 - call.attrs.real("dropout_p", 0))),
                   .threads = omp_get_max_threads()};
  s.scale = static_cast<float>(call.attrs.real("scale", 1 / std::sqrt(static_cast<double>(s.depth))));
  s.out = dense(s.queries, s.heads, s.depth);
  s.q = packed ? HeadStrides{3 * s.out.batch, 3 * s.out.token, s.depth} : s.out;
  s.k = packed ? s.q : dense(s.keys, s.kv_heads, s.depth);
  s.v = s.k;
  if (call.has(at.mask)) set_mask(s, call.in(at.mask));
  return s;
}

AttentionDraw attention_draw(const AttentionShape& s, std::int64_t key, const std::uint64_t* rng) {
  if (s.drop == 0) return {};
  return {.key = mix(mix(rng[0], static_cast<std::uint64_t>(key)), rng[1]), .index = rng[2]};
}

}  // namespace neap::ops

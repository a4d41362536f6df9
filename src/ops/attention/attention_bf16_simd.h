// Attention of bf16 by instructions for it: products of pairs with sums in f32, weights rounded to bf16 before they
// meet the values.
#pragma once

#include "ops/attention/attention_simd.h"

namespace neap {

struct AttentionForwardBf16 {
  const std::uint16_t *q, *k, *v;
  const void* mask;
  AttentionDraw draw;
  std::uint16_t* out;
  float* lse;  // may be null
  float* workspace;
};

struct AttentionBackwardBf16 {
  const std::uint16_t *dout, *q, *k, *v, *out;
  const float* lse;
  const void* mask;
  AttentionDraw draw;
  std::uint16_t *dq, *dk, *dv;  // each may be null
  float* workspace;
};

// Null where the build has no such instructions. The depth is even.
struct AttentionBf16Table {
  std::int64_t (*floats)(const AttentionShape&);
  void (*run)(const AttentionShape&, const AttentionForwardBf16&);
  std::int64_t (*grad_floats)(const AttentionShape&);
  void (*grad)(const AttentionShape&, const AttentionBackwardBf16&);
};
NEAP_ISA_TABLE(AttentionBf16Table, attention_bf16_table)

}  // namespace neap

#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

// Steps in elements from one batch entry, token or head to the next; a head's numbers lie side by side.
struct HeadStrides {
  std::int64_t batch = 0, token = 0, head = 0;
};

enum class MaskKind : std::uint8_t {
  kNone,
  kAdded,  // f32, added to the scores
  kBytes,  // 0: not seen
};

struct AttentionShape {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, depth = 0;
  HeadStrides q, k, v, out;  // gradients have the strides of what they belong to
  bool causal = false;
  std::int64_t offset = 0;  // causal: query i sees keys 0..i + offset
  float scale = 1;
  MaskKind mask = MaskKind::kNone;
  std::int64_t mask_batch = 0, mask_head = 0, mask_query = 0, mask_key = 0;  // strides, 0 where broadcast
  float drop = 0;                                                            // probability that a weight is dropped
  float keep_scale = 1;
  int threads = 1;
};

// Random number of weight (b, h, i, j): index + ((b * heads + h) * queries + i) * keys + j.
struct AttentionDraw {
  std::uint64_t key = 0, index = 0;
};

// T: float, or std::uint16_t for bf16.
template <class T>
struct AttentionForward {
  const T *q, *k, *v;
  const void* mask;
  AttentionDraw draw;
  T* out;
  float* lse;  // [batch, heads, queries], may be null
  float* workspace;
};

template <class T>
struct AttentionBackward {
  const T *dout, *q, *k, *v, *out;
  const float* lse;
  const void* mask;
  AttentionDraw draw;
  T *dq, *dk, *dv;  // each may be null
  float* workspace;
};

template <class Pass>
struct AttentionKernels {
  std::int64_t (*floats)(const AttentionShape&);  // of workspace, for all threads
  void (*run)(const AttentionShape&, const Pass&);
};
template <class T>
using AttentionTable = AttentionKernels<AttentionForward<T>>;
template <class T>
using AttentionGradTable = AttentionKernels<AttentionBackward<T>>;

NEAP_ISA_TABLE(AttentionTable<float>, attention_table)
NEAP_ISA_TABLE(AttentionGradTable<float>, attention_grad_table)
// By instructions for bf16: products of pairs with sums in f32, weights rounded to bf16 before they meet the values.
// The depth is even. Null where the build has no such instructions.
NEAP_ISA_TABLE(AttentionTable<std::uint16_t>, attention_bf16_table)
NEAP_ISA_TABLE(AttentionGradTable<std::uint16_t>, attention_bf16_grad_table)

}  // namespace neap

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

struct AttentionForward {
  const float *q, *k, *v;
  const void* mask;
  AttentionDraw draw;
  float* out;
  float* lse;  // [batch, heads, queries], may be null
  float* workspace;
};

struct AttentionBackward {
  const float *dout, *q, *k, *v, *out, *lse;
  const void* mask;
  AttentionDraw draw;
  float *dq, *dk, *dv;  // each may be null
  float* workspace;
};

struct AttentionTable {
  std::int64_t (*floats)(const AttentionShape&);  // of workspace, for all threads
  void (*run)(const AttentionShape&, const AttentionForward&);
};
NEAP_ISA_TABLE(AttentionTable, attention_table)

struct AttentionGradTable {
  std::int64_t (*floats)(const AttentionShape&);
  void (*run)(const AttentionShape&, const AttentionBackward&);
};
NEAP_ISA_TABLE(AttentionGradTable, attention_grad_table)

}  // namespace neap

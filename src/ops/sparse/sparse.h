// Layers whose weights are mostly zeros, in kernels that skip them: for inference.
#pragma once

#include <algorithm>

#include "ops/kernel.h"

namespace neap::ops {

// A dense weight and where its numbers lie.
struct DenseWeight {
  std::int64_t in = 0, out = 0;
  bool transposed = false;
  constexpr std::int64_t at(std::int64_t o, std::int64_t i) const { return transposed ? i * out + o : o * in + i; }
};

// By pattern: of each eight inputs that stand side by side at most `kept` (1 to 7) have a weight. Sixteen outputs make
// a panel. Group by group it has `kept` vectors of sixteen weights, and for each vector one word with where in the
// group each of them belongs: four bits a lane, those of lane l at bit 32 * (l % 2) + 4 * (l / 2), so that a broadcast
// and one shift bring them to their lanes. 2:4 is a special case of 4 in 8.
struct SparseWeight {
  static constexpr std::int64_t kGroup = 8, kLanes = 16;
  std::int64_t in = 0, out = 0, kept = 0;

  constexpr std::int64_t groups() const { return in / kGroup; }
  constexpr std::int64_t panels() const { return (out + kLanes - 1) / kLanes; }
  constexpr std::int64_t vectors() const { return panels() * groups() * kept; }
  // Of the vector for the group's i-th weight.
  constexpr std::int64_t vector(std::int64_t panel, std::int64_t group, std::int64_t i) const {
    return (panel * groups() + group) * kept + i;
  }
  static constexpr std::int64_t bit(std::int64_t lane) { return 32 * (lane % 2) + 4 * (lane / 2); }
};

struct SparseLayer {
  SparseWeight weight;
  std::int64_t rows = 0;
  bool bias = false;
};

// Inputs x, values, index, bias; output y.
Prepared sparse_ref(const SparseLayer& s);
Prepared sparse_simd(const SparseLayer& s);
[[gnu::weak]] Prepared sparse_cuda(const SparseLayer& s);
// A GPU cannot refuse a weight that has more than it is packed by: its numbers become NaN.
[[gnu::weak]] Prepared pack_sparse_cuda(const DenseWeight& from, const SparseWeight& to);

// Without a pattern: for each output its weights and the inputs that they belong to, in order; output o's are
// [start[o], start[o + 1]).
struct ListedLayer {
  std::int64_t rows = 0, in = 0, out = 0;
  bool bias = false;
};

// Inputs x, values, index, start, bias; output y.
Prepared listed_ref(const ListedLayer& s);
Prepared listed_simd(const ListedLayer& s);
[[gnu::weak]] Prepared listed_cuda(const ListedLayer& s);
[[gnu::weak]] Prepared pack_listed_cuda(const DenseWeight& from, std::int64_t count);

}  // namespace neap::ops

// Layers whose weights are mostly zeros, in kernels that skip them: for inference.
#pragma once

#include <algorithm>

#include "ops/kernel.h"

namespace neap::ops {

// By pattern: of each eight inputs that stand side by side at most `kept` (1 to 7) have a weight. Sixteen outputs make
// a panel. Group by group it has `kept` vectors of sixteen weights, and for each vector one word with where in the
// group each of them belongs: four bits a lane, those of lane l at bit 32 * (l % 2) + 4 * (l / 2), so that a broadcast
// and one shift bring them to their lanes. 2:4 is a special case of 4 in 8.
struct SparseWeight {
  static constexpr std::int64_t kGroup = 8, kLanes = 16;
  std::int64_t in = 0, out = 0, kept = 0;

  std::int64_t groups() const { return in / kGroup; }
  std::int64_t panels() const { return (out + kLanes - 1) / kLanes; }
  std::int64_t vectors() const { return panels() * groups() * kept; }
  // Of the vector for the group's i-th weight.
  std::int64_t vector(std::int64_t panel, std::int64_t group, std::int64_t i) const {
    return (panel * groups() + group) * kept + i;
  }
  static std::int64_t bit(std::int64_t lane) { return 32 * (lane % 2) + 4 * (lane / 2); }
};

struct SparseLayer {
  SparseWeight weight;
  std::int64_t rows = 0;
  bool bias = false;
};

// Inputs x, values, index, bias; output y.
Prepared sparse_ref(const SparseLayer& s);
Prepared sparse_simd(const SparseLayer& s);

// Without a pattern: for each output its weights and the inputs that they belong to, in order; output o's are
// [start[o], start[o + 1]).
struct ListedLayer {
  std::int64_t rows = 0, in = 0, out = 0;
  bool bias = false;
};

// Inputs x, values, index, start, bias; output y.
Prepared listed_ref(const ListedLayer& s);
Prepared listed_simd(const ListedLayer& s);

}  // namespace neap::ops

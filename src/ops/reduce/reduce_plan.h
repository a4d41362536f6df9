// A reduction of a dense tensor: which elements make up each element of the dense result, in which order.
#pragma once

#include <cstdint>

namespace neap {

// Axes that lie beside each other and are all kept, or all reduced, are merged; strides are in elements.
struct ReducePlan {
  static constexpr int kMaxRank = 16;
  struct Axes {
    int rank = 0;
    std::int64_t count = 1;
    std::int64_t dims[kMaxRank] = {};
    std::int64_t strides[kMaxRank] = {};
  };
  Axes kept;
  Axes reduced;
  // The innermost axis is kept: neighbours in memory belong to different results.
  bool keeps_innermost = false;
  // The terms of a result are summed in this many blocks, and these in order; it depends on the shape alone.
  std::int64_t blocks = 1;

  std::int64_t outputs() const { return kept.count; }
  std::int64_t terms() const { return reduced.count; }
  // Of the partial results, doubles; none where one block does it all.
  std::int64_t workspace_bytes() const { return blocks > 1 ? blocks * outputs() * 8 : 0; }
};

}  // namespace neap

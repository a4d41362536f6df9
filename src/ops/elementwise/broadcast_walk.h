// Walks a BroadcastPlan over the threads, for *_simd.cc files only.
#pragma once

#include "ops/elementwise/blocks.h"
#include "ops/elementwise/broadcast_plan.h"

namespace neap::NEAP_ISA_NS {
namespace {

template <int N>
struct BroadcastCursor {
  std::int64_t index[BroadcastPlan::kMaxRank];
  std::int64_t offset[N];  // of each input, at the start of the row
  std::int64_t column;

  BroadcastCursor(const BroadcastPlan& p, std::int64_t linear) : index{}, offset{} {
    column = linear % p.dims[p.rank - 1];
    linear /= p.dims[p.rank - 1];
    for (int a = p.rank - 2; a >= 0; --a) {
      index[a] = linear % p.dims[a];
      linear /= p.dims[a];
      for (int i = 0; i < N; ++i) offset[i] += index[a] * p.strides[i][a];
    }
  }

  void next_row(const BroadcastPlan& p) {
    column = 0;
    for (int a = p.rank - 2; a >= 0; --a) {
      for (int i = 0; i < N; ++i) offset[i] += p.strides[i][a];
      if (++index[a] < p.dims[a]) return;
      index[a] = 0;
      for (int i = 0; i < N; ++i) offset[i] -= p.dims[a] * p.strides[i][a];
    }
  }
};

// row(offset of each input, offset of the output, count) for runs along the last axis.
template <int N, class Row>
inline void walk(const BroadcastPlan& p, Row row) {
  const std::int64_t width = p.dims[p.rank - 1];
  for_blocks(p.count, [&](std::int64_t first, std::int64_t count) {
    BroadcastCursor<N> cursor(p, first);
    for (const std::int64_t end = first + count; first < end;) {
      const std::int64_t left = width - cursor.column;
      const std::int64_t run = left < end - first ? left : end - first;
      std::int64_t offset[N];
      for (int i = 0; i < N; ++i) offset[i] = cursor.offset[i] + cursor.column * p.strides[i][p.rank - 1];
      row(offset, first, run);
      first += run;
      if (first < end) cursor.next_row(p);
    }
  });
}

// Makes a run-time bool a constant of the callee's type: the loops for repeated inputs are compiled apart.
template <bool B>
struct Flag {
  static constexpr bool value = B;
};
template <class F>
inline void with_flag(bool b, F f) {
  b ? f(Flag<true>{}) : f(Flag<false>{});
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS

// Rows of the middle axis of [outer, axis, inner], picked or added to by index.
#pragma once

#include "ops/gather/indices.h"
#include "ops/gather/rows_simd.h"
#include "ops/kernel.h"

namespace neap::ops {

struct RowPick {
  std::string_view op;
  PickShape shape;
  Indices indices;
  std::int64_t element_bytes;
};

// outputs[0] = rows of inputs[data] picked by inputs[index].
Prepared pick_rows(const RowPick& pick, std::size_t data, std::size_t index);
Prepared pick_rows_ref(const RowPick& pick, std::size_t data, std::size_t index);
[[gnu::weak]] Prepared pick_rows_cuda(const RowPick& pick, std::size_t data, std::size_t index);
// outputs[0] = zeros, to whose rows those of inputs[1] are added by inputs[0].
Prepared add_rows(const RowPick& pick);
[[gnu::weak]] Prepared add_rows_cuda(const RowPick& pick);
Prepared add_rows_ref(const RowPick& pick);

}  // namespace neap::ops

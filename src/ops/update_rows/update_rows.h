// An optimizer's step in two calls, for a table that lookups read too: first the rows that no lookup has picked, while
// the gradient from elsewhere is there, later the others, when the lookups' gradients are.
#pragma once

#include <vector>

#include "ops/gather/indices.h"
#include "ops/kernel.h"
#include "ops/update_rows/update_rows_simd.h"

namespace neap::ops {

// Inputs that both calls have: param, gradient, m or momentum, v, hyper. Behind them stand the lookups; in the first
// call what the call before it has kept comes first.
inline constexpr std::size_t kHyper = 4;
inline constexpr std::size_t kKept = 5;

struct UpdateRows {
  std::int64_t rows = 0, width = 0;
  std::int64_t first = 0, last = 0;  // rows of the table whose gradient the first call has
  std::int64_t picks = 0;            // of all lookups
  std::vector<Indices> lookups;      // one each
  bool is_rest = true;
  UpdateRule rule = UpdateRule::kSgd;
  bool decoupled = false, nesterov = false;

  const void* ids(const Buffers& b, std::size_t lookup) const {
    return b.in<void>(is_rest ? kKept + 1 + lookup : kHyper + 1 + 2 * lookup);
  }
  const float* dy(const Buffers& b, std::size_t lookup) const {
    return is_rest ? nullptr : b.in<float>(kHyper + 2 + 2 * lookup);
  }
};

// Of a call with static shapes.
UpdateRows update_rows_of(const OpCall& call);

Prepared rest_update_ref(const OpCall& call);
Prepared rows_update_ref(const OpCall& call);
[[gnu::weak]] Prepared rest_update_cuda(const OpCall& call);
[[gnu::weak]] Prepared rows_update_cuda(const OpCall& call);

}  // namespace neap::ops

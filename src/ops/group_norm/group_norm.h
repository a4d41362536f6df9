#pragma once

#include "ops/batch_norm/columns.h"
#include "ops/kernel.h"

namespace neap::ops {

// [N, ..., C] with C channels in groups; instance norm has a group a channel.
struct GroupNorm {
  Columns columns;
  std::int64_t groups;
  double epsilon;

  std::int64_t group_channels() const { return columns.c / groups; }
  double group_elements() const { return static_cast<double>(columns.rows * group_channels()); }
};

GroupNorm group_norm_of(const Shape& x, const Attrs& attrs);

[[gnu::weak]] Prepared group_norm_cuda(const OpCall& call);
[[gnu::weak]] Prepared group_norm_grad_cuda(const OpCall& call);
Prepared group_norm_ref(const OpCall& call);
Prepared group_norm_grad_ref(const OpCall& call);

}  // namespace neap::ops

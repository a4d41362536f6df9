#pragma once

#include "ops/kernel.h"

namespace neap::ops {

// The attributes of a call.
struct DropoutDraw {
  std::uint64_t key;
  float p;
  float scale;  // of what stays
  std::int64_t n;
  std::uint64_t first;  // index of the first element, beside the key's: that of a part of the batch

  explicit DropoutDraw(const OpCall& call);
};

[[gnu::weak]] Prepared dropout_cuda(const OpCall& call);

}  // namespace neap::ops

#pragma once

#include "ops/kernel.h"

namespace neap::ops {

// The k best of each line of `width` elements.
struct TopKLines {
  std::int64_t outer = 1, width = 1, inner = 1, k = 0;
  bool largest = true;
};

[[gnu::weak]] Prepared top_k_cuda(const TopKLines& lines, DType type);

}  // namespace neap::ops

#pragma once

#include "device/both.h"
#include "ops/kernel.h"

namespace neap::ops {

// x as [outer, length, inner], and which scale belongs to an element.
struct Scales {
  std::int64_t n = 0, length = 1, inner = 1, block = 0;
  bool is_one = true;

  NEAP_BOTH std::int64_t at(std::int64_t i) const {
    if (is_one) return 0;
    const std::int64_t place = i / inner % length;
    if (block == 0) return place;
    const std::int64_t blocks = (length + block - 1) / block;
    return (i / (inner * length) * blocks + place / block) * inner + i % inner;
  }
};

Scales scales_of(const OpCall& call);

[[gnu::weak]] Prepared quantize_cuda(const OpCall& call);
[[gnu::weak]] Prepared dequantize_cuda(const OpCall& call);

}  // namespace neap::ops

// Layers whose weight lies as the product reads it: panels of 64 outputs, in each the inputs one after the other,
// sixteen at a time with zeros behind the last. That is oneDNN's BA16a64b, so its kernel takes it without a copy.
#pragma once

#include "ops/kernel.h"

namespace neap::ops {

struct PackedLayer {
  static constexpr std::int64_t kPanel = 64, kStep = 16;
  std::int64_t rows = 0, in = 0, out = 0;
  bool bias = false;

  std::int64_t panels() const { return (out + kPanel - 1) / kPanel; }
  std::int64_t depth() const { return (in + kStep - 1) / kStep * kStep; }
  std::int64_t at(std::int64_t o, std::int64_t i) const { return (o / kPanel * depth() + i) * kPanel + o % kPanel; }
};

// Inputs x, packed, bias; output y.
[[gnu::weak]] Prepared packed_onednn(const PackedLayer& s);
Prepared packed_own(const PackedLayer& s);
Prepared packed_ref(const PackedLayer& s);

}  // namespace neap::ops

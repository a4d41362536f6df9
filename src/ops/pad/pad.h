#pragma once

#include <vector>

#include "ops/kernel.h"

namespace neap::ops {

enum class PadMode : std::uint8_t { kConstant, kReflect, kEdge, kWrap };

// One axis: what negative pads leave, [first, first + kept), is padded by `begin` before and `end` behind.
struct PadAxis {
  std::int64_t in = 1;
  std::int64_t first = 0;
  std::int64_t kept = 1;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t out() const { return begin + kept + end; }
  bool is_plain() const { return begin == 0 && end == 0 && kept == in; }
  // Where output o comes from; -1: it is the constant.
  std::int64_t source(std::int64_t o, PadMode mode) const;
};

PadMode pad_mode(const Attrs& attrs);
// From the attribute `pads` (all begins, then all ends); UserError when an axis is too short for them.
std::vector<PadAxis> pad_axes(const Shape& x, const Attrs& attrs);

[[gnu::weak]] Prepared pad_cuda(const OpCall& call);
[[gnu::weak]] Prepared pad_grad_cuda(const OpCall& call);
Prepared pad_ref(const OpCall& call);
Prepared pad_grad_ref(const OpCall& call);
Prepared pad_copy(const OpCall& call);
Prepared pad_grad_gather(const OpCall& call);

// The attribute `value` as an element of this type, in the first bytes.
std::int64_t pad_value(DType type, double value);

}  // namespace neap::ops

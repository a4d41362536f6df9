#pragma once

#include <vector>

#include "ops/kernel.h"
#include "ops/resize/resize_rule.h"

namespace neap::ops {

// One axis of a resize as a sparse matrix: output o is the sum of weight[t] * input[index[t]] over the taps t in
// [begin[o], begin[o + 1]). An output that lies outside of the crop has no tap: it is the extrapolation value.
struct AxisTaps {
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::vector<std::int32_t> begin = {0};
  std::vector<std::int32_t> index;
  std::vector<double> weight;
  std::vector<std::uint8_t> outside;  // one an output

  AxisTaps() = default;
  explicit AxisTaps(const ResizeRule& rule);
  bool is_identity() const;
  AxisTaps transposed() const;
};

// UserError when an attribute makes no sense. Sizes may be symbols; scales of an axis that is not named are 1.
Shape resized(const Shape& x, const Attrs& attrs);
// The rule of every axis of x; x is static.
std::vector<ResizeRule> resize_rules(const Shape& x, const Attrs& attrs);

// Sizes, scale and roi of one axis, with what the attributes say of the rest.
ResizeRule resize_rule(ResizeRule sizes, const Attrs& attrs);

// y (of y_type) from x by the taps of each axis; also dx from dy by the transposed taps.
Prepared resize_by(const std::vector<AxisTaps>& taps, DType type, double extrapolation);  // f32, at most two axes
Prepared resize_by_ref(const std::vector<AxisTaps>& taps, DType type, double extrapolation);
// `back`: dx from dy.
[[gnu::weak]] Prepared resize_by_cuda(const std::vector<ResizeRule>& rules, bool back, DType type,
                                      double extrapolation);

}  // namespace neap::ops

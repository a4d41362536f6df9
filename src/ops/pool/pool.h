#pragma once

#include <vector>

#include "ops/conv/window.h"
#include "ops/kernel.h"
#include "ops/pool/pool_simd.h"

namespace neap::ops {

// What an average divides by: the taps inside, those in the padding too, or all (also where a window hangs over the
// end).
enum class PoolCount : std::uint8_t { kInside, kPadded, kAll };
PoolCount pool_count(const Attrs& attrs);

// Owns the tables that a PoolAxis points to.
class PoolAxisTables {
 public:
  PoolAxisTables(const WindowAxis& axis, std::int64_t size, std::int64_t positions, PoolCount count);
  PoolAxis view() const;

 private:
  std::int64_t size_;
  std::int64_t positions_;
  WindowAxis axis_;
  std::vector<std::int32_t> start_, first_, last_;
  std::vector<float> count_;
  std::vector<std::int32_t> begin_, position_, tap_;
};

struct Pool {
  std::int64_t n;
  std::int64_t c;
  PoolAxisTables h;
  PoolAxisTables w;

  PoolShape view() const { return {.n = n, .c = c, .h = h.view(), .w = w.view()}; }
};

// From the shapes of x and y and the op's attributes: kernel, strides, pads, dilations, count_include_pad,
// count_overhang.
Pool pool_of(const Shape& x, const Shape& y, const Attrs& attrs);

// Shape rules. UserError when x, the window or the gradient's shape do not fit.
Shape pooled(const Shape& x, const Attrs& attrs);
Shape pooled_globally(const Shape& x);
GlobalShape global_shape(const Shape& x);
// Type of an index into windows of the attribute `kernel`.
DType tap_type(const Attrs& attrs);

// The attributes with `shape` added: what a gradient needs to know of x.
Attrs with_shape(const Attrs& attrs, const Shape& shape);

[[gnu::weak]] Prepared max_pool_cuda(const OpCall& call);
[[gnu::weak]] Prepared max_pool_grad_cuda(const OpCall& call);
[[gnu::weak]] Prepared average_pool_cuda(const OpCall& call);
[[gnu::weak]] Prepared average_pool_grad_cuda(const OpCall& call);
[[gnu::weak]] Prepared global_average_pool_cuda(const OpCall& call);
[[gnu::weak]] Prepared global_average_pool_grad_cuda(const OpCall& call);
[[gnu::weak]] Prepared global_max_pool_cuda(const OpCall& call);
[[gnu::weak]] Prepared global_max_pool_grad_cuda(const OpCall& call);
[[gnu::weak]] Prepared lp_pool_cuda(const OpCall& call);
[[gnu::weak]] Prepared max_pool_indices_cuda(const OpCall& call);
[[gnu::weak]] Prepared max_unpool_cuda(const OpCall& call);
[[gnu::weak]] Prepared max_unpool_grad_cuda(const OpCall& call);
Prepared max_pool_ref(const OpCall& call);
Prepared max_pool_grad_ref(const OpCall& call);
Prepared average_pool_ref(const OpCall& call);
Prepared average_pool_grad_ref(const OpCall& call);

}  // namespace neap::ops

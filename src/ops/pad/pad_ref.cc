#include <algorithm>
#include <cstring>

#include "ops/pad/pad.h"

namespace neap::ops {
namespace {

struct Problem {
  std::vector<PadAxis> axes;
  PadMode mode;
  std::int64_t outputs = 1;

  Problem(const Shape& x, const Attrs& attrs) : axes(pad_axes(x, attrs)), mode(pad_mode(attrs)) {
    for (const PadAxis& a : axes) outputs *= a.out();
  }

  // The element of x that element o of y is; -1: the constant.
  std::int64_t source(std::int64_t o) const {
    std::int64_t at = 0;
    std::int64_t stride = 1;
    for (std::size_t i = axes.size(); i-- > 0;) {
      const std::int64_t s = axes[i].source(o % axes[i].out(), mode);
      if (s < 0) return -1;
      at += s * stride;
      stride *= axes[i].in;
      o /= axes[i].out();
    }
    return at;
  }
};

}  // namespace

Prepared pad_ref(const OpCall& call) {
  const auto bytes = static_cast<std::size_t>(byte_size(call.in(0).dtype, 1));
  const std::int64_t value = pad_value(call.in(0).dtype, call.attrs.real("value", 0));
  return function_kernel([p = Problem(call.shape(0), call.attrs), bytes, value](const Buffers& b) {
    for (std::int64_t o = 0; o < p.outputs; ++o) {
      const std::int64_t s = p.source(o);
      const void* from = s < 0 ? static_cast<const void*>(&value) : b.inputs[0] + static_cast<std::size_t>(s) * bytes;
      std::memcpy(b.outputs[0] + static_cast<std::size_t>(o) * bytes, from, bytes);
    }
  });
}

Prepared pad_grad_ref(const OpCall& call) {
  const std::int64_t size = call.outputs[0].elements();
  return function_kernel([p = Problem(call.outputs[0].shape, call.attrs), size](const Buffers& b) {
    std::fill_n(b.out<float>(0), size, 0.0F);
    for (std::int64_t o = 0; o < p.outputs; ++o) b.out<float>(0)[p.source(o)] += b.in<float>(0)[o];
  });
}

}  // namespace neap::ops

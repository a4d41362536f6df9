#include <cmath>
#include <limits>

#include "ops/pool/pool_windows.h"

namespace neap::ops {
namespace {

void write_tap(const Buffers& b, bool wide, std::int64_t at, std::int64_t tap) {
  if (b.outputs[1] == nullptr) return;
  if (wide) {
    b.out<std::int32_t>(1)[at] = static_cast<std::int32_t>(tap);
  } else {
    b.out<std::uint8_t>(1)[at] = static_cast<std::uint8_t>(tap);
  }
}

}  // namespace

Prepared max_pool_ref(const OpCall& call) {
  const bool wide = tap_type(call.attrs) == DType::kI32;
  return function_kernel([p = PoolWindows(call.shape(0), call.outputs[0].shape, call.attrs), wide](const Buffers& b) {
    p.each_position([&](const Place& o, std::int64_t at, std::int64_t image) {
      for (std::int64_t c = 0; c < p.c; ++c) {
        float best = -std::numeric_limits<float>::infinity();
        std::int64_t best_tap = -1;
        each_tap(p.window, p.in, o, [&](std::int64_t tap, std::int64_t pixel) {
          const float v = b.in<float>(0)[image + pixel * p.c + c];
          if (best_tap >= 0 && !(v > best) && !std::isnan(v)) return;
          best = v;
          best_tap = tap;
        });
        b.out<float>(0)[at + c] = best;
        write_tap(b, wide, at + c, std::max<std::int64_t>(best_tap, 0));
      }
    });
  });
}

// Sums in the order of the windows: enough windows to matter for the rounding do not meet in one element.
Prepared max_pool_grad_ref(const OpCall& call) {
  const bool wide = call.in(1).dtype == DType::kI32;
  const std::int64_t size = call.outputs[0].elements();
  return function_kernel(
      [p = PoolWindows(call.outputs[0].shape, call.shape(0), call.attrs), wide, size](const Buffers& b) {
        float* dx = b.out<float>(0);
        std::fill_n(dx, size, 0.0F);
        p.each_position([&](const Place& o, std::int64_t at, std::int64_t image) {
          for (std::int64_t c = 0; c < p.c; ++c) {
            const std::int64_t chosen = wide ? b.in<std::int32_t>(1)[at + c] : b.in<std::uint8_t>(1)[at + c];
            each_tap(p.window, p.in, o, [&](std::int64_t tap, std::int64_t pixel) {
              if (tap == chosen) dx[image + pixel * p.c + c] += b.in<float>(0)[at + c];
            });
          }
        });
      });
}

Prepared average_pool_ref(const OpCall& call) {
  return function_kernel([p = PoolWindows(call.shape(0), call.outputs[0].shape, call.attrs)](const Buffers& b) {
    p.each_position([&](const Place& o, std::int64_t at, std::int64_t image) {
      for (std::int64_t c = 0; c < p.c; ++c) {
        double sum = 0;
        each_tap(p.window, p.in, o,
                 [&](std::int64_t, std::int64_t pixel) { sum += b.in<float>(0)[image + pixel * p.c + c]; });
        b.out<float>(0)[at + c] = static_cast<float>(sum / std::max(1.0, p.divisor(o)));
      }
    });
  });
}

Prepared average_pool_grad_ref(const OpCall& call) {
  const std::int64_t size = call.outputs[0].elements();
  return function_kernel([p = PoolWindows(call.outputs[0].shape, call.shape(0), call.attrs), size](const Buffers& b) {
    float* dx = b.out<float>(0);
    std::fill_n(dx, size, 0.0F);
    p.each_position([&](const Place& o, std::int64_t at, std::int64_t image) {
      const double divisor = p.divisor(o);
      for (std::int64_t c = 0; c < p.c; ++c) {
        each_tap(p.window, p.in, o, [&](std::int64_t, std::int64_t pixel) {
          dx[image + pixel * p.c + c] += static_cast<float>(b.in<float>(0)[at + c] / divisor);
        });
      }
    });
  });
}

}  // namespace neap::ops

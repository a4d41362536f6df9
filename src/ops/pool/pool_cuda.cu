// Pools: a thread an element of the result. Gradients gather from the windows that an element lies in, in their order.
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/pool/pool_windows.h"

namespace neap::ops {
namespace {

struct Shape3 {
  Window window;
  Plane in, out;
  std::int64_t n, c;
  PoolCount count;

  explicit Shape3(const PoolWindows& p) : window(p.window), in(p.in), out(p.out), n(p.n), c(p.c), count(p.count) {}
};

__device__ std::int64_t source(const WindowAxis& a, std::int64_t o, std::int64_t k) {
  return o * a.stride - a.pad_begin + k * a.dilation;
}

struct At {
  std::int64_t n, d, h, w, c;
};

template <class Index>
__device__ At split(const Plane& plane, Index channels, Index i) {
  const auto w = static_cast<Index>(plane.w);
  const auto h = static_cast<Index>(plane.h);
  const auto d = static_cast<Index>(plane.d);
  const Index pixel = i / channels;
  const Index row = pixel / w;
  const Index slab = row / h;
  const Index image = slab / d;
  return {image, slab - image * d, row - slab * h, pixel - row * w, i - pixel * channels};
}

// Division of 32 bits takes a fraction of that of 64.
__device__ At place(const Plane& plane, std::int64_t channels, std::int64_t i) {
  if (i < (std::int64_t{1} << 31)) {
    return split<std::uint32_t>(plane, static_cast<std::uint32_t>(channels), static_cast<std::uint32_t>(i));
  }
  return split<std::int64_t>(plane, channels, i);
}

// f(tap, element of x) for the taps of an output position that lie inside.
template <class F>
__device__ void each_inside(const Shape3& s, const At& o, F f) {
  for (std::int64_t kd = 0; kd < s.window.d.kernel; ++kd) {
    const std::int64_t d = source(s.window.d, o.d, kd);
    if (d < 0 || d >= s.in.d) continue;
    for (std::int64_t kh = 0; kh < s.window.h.kernel; ++kh) {
      const std::int64_t h = source(s.window.h, o.h, kh);
      if (h < 0 || h >= s.in.h) continue;
      for (std::int64_t kw = 0; kw < s.window.w.kernel; ++kw) {
        const std::int64_t w = source(s.window.w, o.w, kw);
        if (w < 0 || w >= s.in.w) continue;
        f((kd * s.window.h.kernel + kh) * s.window.w.kernel + kw,
          (((o.n * s.in.d + d) * s.in.h + h) * s.in.w + w) * s.c + o.c);
      }
    }
  }
}

// The output position whose tap k is input position i; -1: none.
__device__ std::int64_t target(const WindowAxis& a, std::int64_t i, std::int64_t k, std::int64_t positions) {
  const std::int64_t at = i + a.pad_begin - k * a.dilation;
  return at >= 0 && at % a.stride == 0 && at / a.stride < positions ? at / a.stride : -1;
}

// f(tap, position) for the windows that element i of x lies in; later taps belong to earlier windows.
template <class F>
__device__ void each_window(const Shape3& s, const At& i, F f) {
  for (std::int64_t kd = s.window.d.kernel - 1; kd >= 0; --kd) {
    const std::int64_t d = target(s.window.d, i.d, kd, s.out.d);
    if (d < 0) continue;
    for (std::int64_t kh = s.window.h.kernel - 1; kh >= 0; --kh) {
      const std::int64_t h = target(s.window.h, i.h, kh, s.out.h);
      if (h < 0) continue;
      for (std::int64_t kw = s.window.w.kernel - 1; kw >= 0; --kw) {
        const std::int64_t w = target(s.window.w, i.w, kw, s.out.w);
        if (w >= 0) f((kd * s.window.h.kernel + kh) * s.window.w.kernel + kw, At{i.n, d, h, w, i.c});
      }
    }
  }
}

__device__ std::int64_t element(const Shape3& s, const At& o) {
  return (((o.n * s.out.d + o.d) * s.out.h + o.h) * s.out.w + o.w) * s.c + o.c;
}

__device__ std::int64_t taps(const WindowAxis& a, std::int64_t o, std::int64_t size, PoolCount count) {
  if (count == PoolCount::kAll) return a.kernel;
  std::int64_t inside = 0;
  for (std::int64_t k = 0; k < a.kernel; ++k) {
    const std::int64_t at = source(a, o, k);
    inside += count == PoolCount::kPadded ? at < size + a.pad_end : at >= 0 && at < size;
  }
  return inside;
}

__device__ float divisor(const Shape3& s, const At& o) {
  const std::int64_t count = taps(s.window.d, o.d, s.in.d, s.count) * taps(s.window.h, o.h, s.in.h, s.count) *
                             taps(s.window.w, o.w, s.in.w, s.count);
  return static_cast<float>(count > 1 ? count : 1);
}

std::int64_t outputs(const Shape3& s) { return s.n * s.out.d * s.out.h * s.out.w * s.c; }
std::int64_t inputs(const Shape3& s) { return s.n * s.in.d * s.in.h * s.in.w * s.c; }

template <class Tap>
void run_max(const Buffers& b, cudaStream_t stream, const Shape3& s) {
  const auto* x = b.in<float>(0);
  auto* y = b.out<float>(0);
  auto* index = b.out<Tap>(1);
  each("max_pool", outputs(s), stream, [=] __device__(std::int64_t i) {
    float best = -INFINITY;
    std::int64_t best_tap = -1;
    each_inside(s, place(s.out, s.c, i), [&](std::int64_t tap, std::int64_t at) {
      const float v = x[at];
      if (best_tap >= 0 && !(v > best) && v == v) return;
      best = v;
      best_tap = tap;
    });
    y[i] = best;
    if (index != nullptr) index[i] = static_cast<Tap>(best_tap > 0 ? best_tap : 0);
  });
}

template <class Tap>
void run_max_grad(const Buffers& b, cudaStream_t stream, const Shape3& s) {
  const auto* dy = b.in<float>(0);
  const auto* index = b.in<Tap>(1);
  auto* dx = b.out<float>(0);
  each("max_pool_grad", inputs(s), stream, [=] __device__(std::int64_t i) {
    float sum = 0;
    each_window(s, place(s.in, s.c, i), [&](std::int64_t tap, const At& o) {
      const std::int64_t at = element(s, o);
      if (index[at] == tap) sum += dy[at];
    });
    dx[i] = sum;
  });
}

void run_average(const Buffers& b, cudaStream_t stream, const Shape3& s) {
  const auto* x = b.in<float>(0);
  auto* y = b.out<float>(0);
  each("average_pool", outputs(s), stream, [=] __device__(std::int64_t i) {
    float sum = 0;
    const At o = place(s.out, s.c, i);
    each_inside(s, o, [&](std::int64_t, std::int64_t at) { sum += x[at]; });
    y[i] = sum / divisor(s, o);
  });
}

void run_average_grad(const Buffers& b, cudaStream_t stream, const Shape3& s) {
  const auto* dy = b.in<float>(0);
  auto* dx = b.out<float>(0);
  each("average_pool_grad", inputs(s), stream, [=] __device__(std::int64_t i) {
    float sum = 0;
    each_window(s, place(s.in, s.c, i), [&](std::int64_t, const At& o) { sum += dy[element(s, o)] / divisor(s, o); });
    dx[i] = sum;
  });
}

void run_global(const Buffers& b, cudaStream_t stream, const GlobalShape& s) {
  const auto* x = b.in<float>(0);
  auto* y = b.out<float>(0);
  each("global_average_pool", s.n * s.c, stream, [=] __device__(std::int64_t i) {
    const float* image = x + i / s.c * s.rows * s.c + i % s.c;
    float sum = 0;
    for (std::int64_t r = 0; r < s.rows; ++r) sum += image[r * s.c];
    y[i] = sum / static_cast<float>(s.rows);
  });
}

void run_global_grad(const Buffers& b, cudaStream_t stream, const GlobalShape& s) {
  const auto* dy = b.in<float>(0);
  auto* dx = b.out<float>(0);
  each("global_average_pool_grad", s.n * s.rows * s.c, stream,
       [=] __device__(std::int64_t i) { dx[i] = dy[i / (s.rows * s.c) * s.c + i % s.c] / static_cast<float>(s.rows); });
}

Shape3 forward_shape(const OpCall& call) {
  return Shape3(PoolWindows(call.shape(0), call.outputs[0].shape, call.attrs));
}
Shape3 backward_shape(const OpCall& call) {
  return Shape3(PoolWindows(call.outputs[0].shape, call.shape(0), call.attrs));
}

}  // namespace

Prepared max_pool_cuda(const OpCall& call) {
  const bool wide = tap_type(call.attrs) == DType::kI32;
  return cuda_kernel([s = forward_shape(call), wide](const Buffers& b, cudaStream_t stream) {
    wide ? run_max<std::int32_t>(b, stream, s) : run_max<std::uint8_t>(b, stream, s);
  });
}

Prepared max_pool_grad_cuda(const OpCall& call) {
  const bool wide = tap_type(call.attrs) == DType::kI32;
  return cuda_kernel([s = backward_shape(call), wide](const Buffers& b, cudaStream_t stream) {
    wide ? run_max_grad<std::int32_t>(b, stream, s) : run_max_grad<std::uint8_t>(b, stream, s);
  });
}

Prepared average_pool_cuda(const OpCall& call) {
  return cuda_kernel([s = forward_shape(call)](const Buffers& b, cudaStream_t stream) { run_average(b, stream, s); });
}

Prepared average_pool_grad_cuda(const OpCall& call) {
  return cuda_kernel(
      [s = backward_shape(call)](const Buffers& b, cudaStream_t stream) { run_average_grad(b, stream, s); });
}

Prepared global_average_pool_cuda(const OpCall& call) {
  return cuda_kernel(
      [s = global_shape(call.shape(0))](const Buffers& b, cudaStream_t stream) { run_global(b, stream, s); });
}

Prepared global_average_pool_grad_cuda(const OpCall& call) {
  return cuda_kernel([s = global_shape(call.outputs[0].shape)](const Buffers& b, cudaStream_t stream) {
    run_global_grad(b, stream, s);
  });
}

}  // namespace neap::ops

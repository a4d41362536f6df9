// Pools: a thread an element of the result. Gradients gather from the windows that an element lies in, in their order.
#include "device/cuda/floats.cuh"
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/pool/pool_windows.cuh"

namespace neap::ops {
namespace {

// The output position whose tap k is input position i; -1: none.
__device__ int target(const Axis& a, int i, int k) {
  const int at = i + a.pad_begin - k * a.dilation;
  return at >= 0 && at % a.stride == 0 && at / a.stride < a.out ? at / a.stride : -1;
}

// f(tap, position) for the windows that element i of x lies in; later taps belong to earlier windows.
template <class F>
__device__ void each_window(const Shape3& s, const At& i, F f) {
  for (int kd = s.d.kernel - 1; kd >= 0; --kd) {
    const int d = target(s.d, i.d, kd);
    if (d < 0) continue;
    for (int kh = s.h.kernel - 1; kh >= 0; --kh) {
      const int h = target(s.h, i.h, kh);
      if (h < 0) continue;
      for (int kw = s.w.kernel - 1; kw >= 0; --kw) {
        const int w = target(s.w, i.w, kw);
        if (w >= 0) f((kd * s.h.kernel + kh) * s.w.kernel + kw, At{i.n, d, h, w, i.c});
      }
    }
  }
}

__device__ int taps(const Axis& a, int o, PoolCount count) {
  if (count == PoolCount::kAll) return a.kernel;
  int inside = 0;
  for (int k = 0; k < a.kernel; ++k) {
    const int at = source(a, o, k);
    inside += count == PoolCount::kPadded ? at < a.in + a.pad_end : at >= 0 && at < a.in;
  }
  return inside;
}

__device__ float divisor(const Shape3& s, const At& o) {
  const int count = taps(s.d, o.d, s.count) * taps(s.h, o.h, s.count) * taps(s.w, o.w, s.count);
  return static_cast<float>(count > 1 ? count : 1);
}

template <class T, class Tap>
void run_max(const Buffers& b, cudaStream_t stream, const Shape3& s) {
  const auto* x = b.in<T>(0);
  auto* y = b.out<T>(0);
  auto* index = b.out<Tap>(1);
  each("max_pool", outputs(s), stream, [=] __device__(std::int64_t i) {
    float best = -INFINITY;
    int best_tap = -1;
    each_inside(s, place_out(s, i), [&](int tap, std::int64_t at) {
      const float v = widen(x[at]);
      if (best_tap >= 0 && !(v > best) && v == v) return;
      best = v;
      best_tap = tap;
    });
    y[i] = narrow<T>(best);
    if (index != nullptr) index[i] = static_cast<Tap>(best_tap > 0 ? best_tap : 0);
  });
}

template <class T, class Tap>
void run_max_grad(const Buffers& b, cudaStream_t stream, const Shape3& s) {
  const auto* dy = b.in<T>(0);
  const auto* index = b.in<Tap>(1);
  auto* dx = b.out<T>(0);
  each("max_pool_grad", inputs(s), stream, [=] __device__(std::int64_t i) {
    float sum = 0;
    each_window(s, place_in(s, i), [&](int tap, const At& o) {
      const std::int64_t at = element(s, o);
      if (index[at] == tap) sum += widen(dy[at]);
    });
    dx[i] = narrow<T>(sum);
  });
}

// Eight channels a thread: 16 bytes of bf16, 8 of taps.
bool fits_vectors(const Shape3& s) { return s.c % kVector == 0 && s.n * s.c > 0; }

struct Taps8 {
  std::uint64_t bits = 0;
  __device__ int at(int k) const { return static_cast<int>(bits >> (8 * k) & 0xffU); }
  __device__ void set(int k, int tap) {
    bits = (bits & ~(std::uint64_t{0xff} << (8 * k))) | static_cast<std::uint64_t>(tap) << (8 * k);
  }
};

void run_max8(const Buffers& b, cudaStream_t stream, const Shape3& s) {
  const auto* x = b.in<Bf16>(0);
  auto* y = b.out<Bf16>(0);
  auto* index = b.out<std::uint8_t>(1);
  each("max_pool", outputs(s) / kVector, stream, [=] __device__(std::int64_t i) {
    float best[kVector];
    Taps8 taken;
    bool is_first = true;
    each_inside(s, place_out(s, i * kVector), [&](int tap, std::int64_t at) {
      float v[kVector];
      load8(x + at, v);
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        if (!is_first && !(v[k] > best[k]) && v[k] == v[k]) continue;
        best[k] = v[k];
        taken.set(k, tap);
      }
      is_first = false;
    });
    if (is_first) {
      for (float& v : best) v = -INFINITY;
    }
    store8(y + i * kVector, best);
    if (index != nullptr) reinterpret_cast<std::uint64_t*>(index)[i] = taken.bits;
  });
}

// Windows along an axis without dilation that position i lies in: [first, end).
struct Windows {
  int first, end;
  __device__ Windows(const Axis& a, int i) {
    const int last = i + a.pad_begin < 0 ? -1 : (i + a.pad_begin) / a.stride;
    const int before = i + a.pad_begin - a.kernel;  // the last position of windows that end before i
    first = before < 0 ? 0 : before / a.stride + 1;
    end = last + 1 < a.out ? last + 1 : a.out;
  }
};

__device__ int tap_of(const Axis& a, int i, int o) { return i + a.pad_begin - o * a.stride; }

void run_max_grad8(const Buffers& b, cudaStream_t stream, const Shape3& s) {
  const auto* dy = b.in<Bf16>(0);
  const auto* index = b.in<std::uint8_t>(1);
  auto* dx = b.out<Bf16>(0);
  each("max_pool_grad", inputs(s) / kVector, stream, [=] __device__(std::int64_t i) {
    float sum[kVector] = {};
    const At at = place_in(s, i * kVector);
    const Windows wd(s.d, at.d), wh(s.h, at.h), ww(s.w, at.w);
    for (int d = wd.first; d < wd.end; ++d) {
      for (int h = wh.first; h < wh.end; ++h) {
        const int row = (tap_of(s.d, at.d, d) * s.h.kernel + tap_of(s.h, at.h, h)) * s.w.kernel;
        for (int w = ww.first; w < ww.end; ++w) {
          const std::int64_t from = element(s, At{at.n, d, h, w, at.c});
          const Taps8 taken{reinterpret_cast<const std::uint64_t*>(index)[from / kVector]};
          float v[kVector];
          load8(dy + from, v);
#pragma unroll
          for (int k = 0; k < kVector; ++k) {
            if (taken.at(k) == row + tap_of(s.w, at.w, w)) sum[k] += v[k];
          }
        }
      }
    }
    store8(dx + i * kVector, sum);
  });
}

bool has_dilation(const Shape3& s) { return s.d.dilation != 1 || s.h.dilation != 1 || s.w.dilation != 1; }

void run_average(const Buffers& b, cudaStream_t stream, const Shape3& s) {
  const auto* x = b.in<float>(0);
  auto* y = b.out<float>(0);
  each("average_pool", outputs(s), stream, [=] __device__(std::int64_t i) {
    float sum = 0;
    const At o = place_out(s, i);
    each_inside(s, o, [&](int, std::int64_t at) { sum += x[at]; });
    y[i] = sum / divisor(s, o);
  });
}

void run_average_grad(const Buffers& b, cudaStream_t stream, const Shape3& s) {
  const auto* dy = b.in<float>(0);
  auto* dx = b.out<float>(0);
  each("average_pool_grad", inputs(s), stream, [=] __device__(std::int64_t i) {
    float sum = 0;
    each_window(s, place_in(s, i), [&](int, const At& o) { sum += dy[element(s, o)] / divisor(s, o); });
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

constexpr const char* kMixture = "a mixture of types";

}  // namespace

Prepared max_pool_cuda(const OpCall& call) {
  const bool wide = tap_type(call.attrs) == DType::kI32;
  const bool is_bf16 = call.in(0).dtype == DType::kBF16;
  if (is_bf16 && (wide || call.outputs[0].dtype != DType::kBF16)) return Declined{kMixture};
  return cuda_kernel([s = forward_shape(call), wide, is_bf16](const Buffers& b, cudaStream_t stream) {
    if (is_bf16) return fits_vectors(s) ? run_max8(b, stream, s) : run_max<Bf16, std::uint8_t>(b, stream, s);
    wide ? run_max<float, std::int32_t>(b, stream, s) : run_max<float, std::uint8_t>(b, stream, s);
  });
}

Prepared max_pool_grad_cuda(const OpCall& call) {
  const bool wide = tap_type(call.attrs) == DType::kI32;
  const bool is_bf16 = call.in(0).dtype == DType::kBF16;
  if (is_bf16 && (wide || call.outputs[0].dtype != DType::kBF16)) return Declined{kMixture};
  return cuda_kernel([s = backward_shape(call), wide, is_bf16](const Buffers& b, cudaStream_t stream) {
    if (is_bf16 && fits_vectors(s) && !has_dilation(s)) return run_max_grad8(b, stream, s);
    if (is_bf16) return run_max_grad<Bf16, std::uint8_t>(b, stream, s);
    wide ? run_max_grad<float, std::int32_t>(b, stream, s) : run_max_grad<float, std::uint8_t>(b, stream, s);
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

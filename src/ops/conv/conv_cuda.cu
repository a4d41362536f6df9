// Convolutions that cuDNN's plain interface does not take (volumes, uneven padding): a thread a result, plainly.
#include "device/cuda/launch.cuh"
#include "ops/conv/conv.h"
#include "ops/cuda_kernel.h"
#include "ops/reduce/columns_cuda.h"

namespace neap::ops {
namespace {

struct At {
  std::int64_t n, d, h, w, c;
};

__device__ At place(std::int64_t i, std::int64_t d, std::int64_t h, std::int64_t w, std::int64_t c) {
  At at{};
  at.c = i % c;
  i /= c;
  at.w = i % w;
  i /= w;
  at.h = i % h;
  i /= h;
  at.d = i % d;
  at.n = i / d;
  return at;
}

__device__ std::int64_t source(const WindowAxis& a, std::int64_t o, std::int64_t k) {
  return o * a.stride - a.pad_begin + k * a.dilation;
}
__device__ std::int64_t target(const WindowAxis& a, std::int64_t i, std::int64_t k, std::int64_t positions) {
  const std::int64_t at = i + a.pad_begin - k * a.dilation;
  return at >= 0 && at % a.stride == 0 && at / a.stride < positions ? at / a.stride : -1;
}
__device__ bool is_in(std::int64_t i, std::int64_t size) { return i >= 0 && i < size; }

// f(kd, kh, kw) over the taps.
template <class F>
__device__ void each_tap(const Window& k, F f) {
  for (std::int64_t d = 0; d < k.d.kernel; ++d) {
    for (std::int64_t h = 0; h < k.h.kernel; ++h) {
      for (std::int64_t w = 0; w < k.w.kernel; ++w) f(d, h, w);
    }
  }
}

void run_forward(const ConvShape& s, const float* x, const float* weight, const float* bias, float* y,
                 cudaStream_t stream) {
  const std::int64_t cg = s.c / s.groups;
  const std::int64_t og = s.o / s.groups;
  each("conv", s.n * s.od * s.oh * s.ow * s.o, stream, [=] __device__(std::int64_t i) {
    const At o = place(i, s.od, s.oh, s.ow, s.o);
    double sum = bias != nullptr ? bias[o.c] : 0;
    std::int64_t tap = o.c * s.window.d.kernel * s.window.h.kernel * s.window.w.kernel;
    each_tap(s.window, [&](std::int64_t kd, std::int64_t kh, std::int64_t kw) {
      const std::int64_t d = source(s.window.d, o.d, kd);
      const std::int64_t h = source(s.window.h, o.h, kh);
      const std::int64_t w = source(s.window.w, o.w, kw);
      const std::int64_t at = tap++ * cg;
      if (!is_in(d, s.d) || !is_in(h, s.h) || !is_in(w, s.w)) return;
      const float* pixel = x + (((o.n * s.d + d) * s.h + h) * s.w + w) * s.c + o.c / og * cg;
      for (std::int64_t c = 0; c < cg; ++c) sum += static_cast<double>(pixel[c]) * weight[at + c];
    });
    y[i] = static_cast<float>(sum);
  });
}

void run_data(const ConvShape& s, const float* dy, const float* weight, float* dx, cudaStream_t stream) {
  const std::int64_t cg = s.c / s.groups;
  const std::int64_t og = s.o / s.groups;
  const std::int64_t taps = s.window.d.kernel * s.window.h.kernel * s.window.w.kernel;
  each("conv_grad_data", s.n * s.d * s.h * s.w * s.c, stream, [=] __device__(std::int64_t i) {
    const At at = place(i, s.d, s.h, s.w, s.c);
    const std::int64_t first = at.c / cg * og;
    double sum = 0;
    std::int64_t tap = 0;
    each_tap(s.window, [&](std::int64_t kd, std::int64_t kh, std::int64_t kw) {
      const std::int64_t d = target(s.window.d, at.d, kd, s.od);
      const std::int64_t h = target(s.window.h, at.h, kh, s.oh);
      const std::int64_t w = target(s.window.w, at.w, kw, s.ow);
      const std::int64_t here = tap++;
      if (d < 0 || h < 0 || w < 0) return;
      const float* pixel = dy + (((at.n * s.od + d) * s.oh + h) * s.ow + w) * s.o;
      for (std::int64_t o = first; o < first + og; ++o) {
        sum += static_cast<double>(pixel[o]) * weight[(o * taps + here) * cg + at.c % cg];
      }
    });
    dx[i] = static_cast<float>(sum);
  });
}

// A block a number of the weight: its threads share the output positions.
__global__ void weight_kernel(const __grid_constant__ ConvShape s, const float* x, const float* dy, const float* start,
                              float* dw) {
  __shared__ double scratch[kThreads / 32];
  const std::int64_t cg = s.c / s.groups;
  const std::int64_t og = s.o / s.groups;
  const std::int64_t total = s.o * s.window.d.kernel * s.window.h.kernel * s.window.w.kernel * cg;
  for (std::int64_t e = blockIdx.x; e < total; e += gridDim.x) {
    const At k = place(e, s.window.d.kernel, s.window.h.kernel, s.window.w.kernel, cg);  // n: the output channel
    const std::int64_t channel = k.n / og * cg + k.c;
    double sum = 0;
    for (std::int64_t p = threadIdx.x; p < s.n * s.od * s.oh * s.ow; p += kThreads) {
      const At o = place(p, s.od, s.oh, s.ow, 1);
      const std::int64_t d = source(s.window.d, o.d, k.d);
      const std::int64_t h = source(s.window.h, o.h, k.h);
      const std::int64_t w = source(s.window.w, o.w, k.w);
      if (!is_in(d, s.d) || !is_in(h, s.h) || !is_in(w, s.w)) continue;
      sum += static_cast<double>(x[(((o.n * s.d + d) * s.h + h) * s.w + w) * s.c + channel]) * dy[p * s.o + k.n];
    }
    sum = block_reduce(sum, Sum(), scratch);
    if (threadIdx.x == 0) dw[e] = start != nullptr ? start[e] + static_cast<float>(sum) : static_cast<float>(sum);
  }
}

// dw = what x and dy make [+ start], which may be null, or `dw` itself.
void run_weight(const ConvShape& s, const float* x, const float* dy, const float* start, float* dw,
                cudaStream_t stream) {
  const std::int64_t numbers = s.o * s.window.d.kernel * s.window.h.kernel * s.window.w.kernel * (s.c / s.groups);
  if (numbers == 0) return;
  const auto blocks = static_cast<unsigned>(numbers < kMostBlocks ? numbers : kMostBlocks);
  weight_kernel<<<blocks, kThreads, 0, stream>>>(s, x, dy, start, dw);
  check_launch("conv_grad_weight");
}

}  // namespace

Prepared conv_forward_cuda(const ConvShape& shape) {
  return cuda_kernel([s = shape](const Buffers& b, cudaStream_t stream) {
    run_forward(s, b.in<float>(0), b.in<float>(1), b.in<float>(2), b.out<float>(0), stream);
  });
}

Prepared conv_weight_cuda(const ConvShape& shape) {
  const ColumnParts columns(shape.n * shape.od * shape.oh * shape.ow, shape.o);
  return cuda_kernel(
      [s = shape, columns](const Buffers& b, cudaStream_t stream) {
        run_weight(s, b.in<float>(0), b.in<float>(1), nullptr, b.out<float>(0), stream);
        auto* bias = wanted_out<float>(b, 1);
        if (bias != nullptr) column_sums_cuda(columns, b.in<float>(1), nullptr, bias, b.workspace, stream);
      },
      columns.bytes(1));
}

Prepared conv_add_weight_cuda(const ConvShape& shape) {
  return cuda_kernel([s = shape](const Buffers& b, cudaStream_t stream) {
    run_weight(s, b.in<float>(0), b.in<float>(1), b.in<float>(2), b.out<float>(0), stream);
  });
}

Prepared conv_data_cuda(const ConvShape& shape) {
  return cuda_kernel([s = shape](const Buffers& b, cudaStream_t stream) {
    run_data(s, b.in<float>(0), b.in<float>(1), b.out<float>(0), stream);
  });
}

}  // namespace neap::ops

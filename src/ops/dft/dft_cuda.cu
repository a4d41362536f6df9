// Short lines term by term, a thread a result; longer ones by powers of two in double: a block a line in shared memory
// while it fits, else stage by stage over as many lines as the workspace holds.
#include "core/bytes.h"
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/dft/dft.h"

namespace neap::ops {
namespace {

constexpr std::int64_t kTermByTerm = 32;
constexpr int kBlockLine = 1024;
constexpr std::int64_t kElementsAtOnce = 1 << 21;

__device__ void write(float* y, std::int64_t at, Complex value) {
  y[at] = static_cast<float>(value.re);
  y[at + 1] = static_cast<float>(value.im);
}

void run_direct(const Buffers& b, cudaStream_t stream, const Transform& t) {
  const auto* x = b.in<float>(0);
  auto* y = b.out<float>(0);
  each("dft", t.lines() * t.out, stream, [=] __device__(std::int64_t i) {
    const std::int64_t line = i / (t.out * t.inner) * t.inner + i % t.inner;
    write(y, 2 * i, t.result(x, line, i / t.inner % t.out));
  });
}

// All stages of one line by the block. Returns where the result lies: in one of the two arrays.
__device__ Complex* block_stages(Complex* from, Complex* to, const Complex* turns, int m, bool inverse) {
  for (int s = 1; s < m; s *= 2) {
    for (int i = static_cast<int>(threadIdx.x); i < m / 2; i += kThreads) {
      const Complex w = turns[stockham_part(s, i)];
      stockham_pair(from, to, m, s, i, inverse ? w : conjugate(w));
    }
    __syncthreads();
    Complex* made = to;
    to = from;
    from = made;
  }
  return from;
}

// `spectrum`: of what the lines are convolved with. Without y it is made, in one block, instead of results.
__global__ void __launch_bounds__(kThreads)
    block_kernel(const __grid_constant__ FastTransform f, const float* x, Complex* spectrum, float* y) {
  __shared__ Complex one[kBlockLine], other[kBlockLine], turns[kBlockLine / 2];
  const int m = static_cast<int>(f.m);
  const int own = static_cast<int>(threadIdx.x);
  for (int i = own; i < m / 2; i += kThreads) turns[i] = turn(i, m);
  const std::int64_t lines = y != nullptr ? f.t.lines() : 1;
  for (std::int64_t line = blockIdx.x; line < lines; line += gridDim.x) {
    for (int j = own; j < m; j += kThreads) one[j] = y != nullptr ? f.load(x, line, j) : f.other(j);
    __syncthreads();
    Complex* made = block_stages(one, other, turns, m, !f.is_product && f.t.inverse);
    if (y == nullptr) {
      for (int j = own; j < m; j += kThreads) spectrum[j] = made[j];
      return;
    }
    if (f.is_product) {
      for (int j = own; j < m; j += kThreads) made[j] = spectrum[j] * made[j];
      __syncthreads();
      made = block_stages(made, made == one ? other : one, turns, m, true);
    }
    for (std::int64_t k = own; k < f.t.out; k += kThreads) write(y, f.t.y_at(line, k), f.result(k, made[k]));
    __syncthreads();
  }
}

void run_blocks(const Buffers& b, cudaStream_t stream, const FastTransform& f) {
  const auto* x = b.in<float>(0);
  auto* spectrum = reinterpret_cast<Complex*>(b.workspace);
  const std::int64_t lines = f.t.lines();
  if (lines == 0) return;
  if (f.is_product) block_kernel<<<1, kThreads, 0, stream>>>(f, x, spectrum, nullptr);
  const auto blocks = static_cast<unsigned>(lines < kMostBlocks ? lines : kMostBlocks);
  block_kernel<<<blocks, kThreads, 0, stream>>>(f, x, spectrum, b.out<float>(0));
  check_launch("dft");
}

// The lines that are transformed at one time, in two arrays, and behind them the spectrum.
struct Lines {
  std::int64_t count;
  Complex *from, *to, *spectrum;

  Lines(const FastTransform& f, std::byte* workspace)
      : count(lines_at_once(f)),
        from(reinterpret_cast<Complex*>(workspace)),
        to(from + count * f.m),
        spectrum(to + count * f.m) {}
  static std::int64_t lines_at_once(const FastTransform& f) {
    const std::int64_t most = kElementsAtOnce / f.m < 1 ? 1 : kElementsAtOnce / f.m;
    return f.t.lines() < most ? f.t.lines() : most;
  }
  static std::int64_t bytes(const FastTransform& f) {
    return (2 * lines_at_once(f) + (f.is_product ? 1 : 0)) * f.m * static_cast<std::int64_t>(sizeof(Complex));
  }
};

// `from` has the result.
void all_stages(Lines& l, std::int64_t count, std::int64_t m, bool inverse, cudaStream_t stream) {
  for (std::int64_t s = 1; s < m; s *= 2) {
    const Complex* from = l.from;
    Complex* to = l.to;
    each("dft", count * (m / 2), stream, [=] __device__(std::int64_t i) {
      const std::int64_t line = i / (m / 2) * m;
      const std::int64_t pair = i % (m / 2);
      const Complex w = turn(stockham_part(s, pair), m);
      stockham_pair(from + line, to + line, m, s, pair, inverse ? w : conjugate(w));
    });
    l.to = l.from;
    l.from = to;
  }
}

void make_spectrum(Lines& l, const FastTransform& f, cudaStream_t stream) {
  Complex* line = l.from;
  each("dft", f.m, stream, [=] __device__(std::int64_t j) { line[j] = f.other(j); });
  all_stages(l, 1, f.m, false, stream);
  NEAP_CHECK_CUDA(cudaMemcpyAsync(l.spectrum, l.from, static_cast<std::size_t>(f.m) * sizeof(Complex),
                                  cudaMemcpyDeviceToDevice, stream));
}

void load_lines(const FastTransform& f, const float* x, std::int64_t first, std::int64_t count, Complex* to,
                cudaStream_t stream) {
  each("dft", count * f.m, stream, [=] __device__(std::int64_t i) { to[i] = f.load(x, first + i / f.m, i % f.m); });
}

void multiply_lines(std::int64_t count, std::int64_t m, const Complex* spectrum, Complex* lines, cudaStream_t stream) {
  each("dft", count * m, stream, [=] __device__(std::int64_t i) { lines[i] = spectrum[i % m] * lines[i]; });
}

void write_lines(const FastTransform& f, const Complex* from, std::int64_t first, std::int64_t count, float* y,
                 cudaStream_t stream) {
  each("dft", count * f.t.out, stream, [=] __device__(std::int64_t i) {
    const std::int64_t line = i / f.t.out;
    const std::int64_t k = i % f.t.out;
    write(y, f.t.y_at(first + line, k), f.result(k, from[line * f.m + k]));
  });
}

void run_stages(const Buffers& b, cudaStream_t stream, const FastTransform& f) {
  Lines l(f, b.workspace);
  if (l.count == 0) return;
  if (f.is_product) make_spectrum(l, f, stream);
  for (std::int64_t first = 0; first < f.t.lines(); first += l.count) {
    const std::int64_t count = f.t.lines() - first < l.count ? f.t.lines() - first : l.count;
    load_lines(f, b.in<float>(0), first, count, l.from, stream);
    all_stages(l, count, f.m, !f.is_product && f.t.inverse, stream);
    if (f.is_product) {
      multiply_lines(count, f.m, l.spectrum, l.from, stream);
      all_stages(l, count, f.m, true, stream);
    }
    write_lines(f, l.from, first, count, b.out<float>(0), stream);
  }
}

}  // namespace

Prepared dft_cuda(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32) return Declined{"f32 only"};
  const Transform transform = transform_of(call);
  if (transform.length <= kTermByTerm) {
    return cuda_kernel([t = transform](const Buffers& b, cudaStream_t stream) { run_direct(b, stream, t); });
  }
  const FastTransform fast(transform);
  if (fast.m <= kBlockLine) {
    return cuda_kernel([f = fast](const Buffers& b, cudaStream_t stream) { run_blocks(b, stream, f); },
                       fast.is_product ? fast.m * static_cast<std::int64_t>(sizeof(Complex)) : 0);
  }
  return cuda_kernel([f = fast](const Buffers& b, cudaStream_t stream) { run_stages(b, stream, f); },
                     Lines::bytes(fast));
}

}  // namespace neap::ops

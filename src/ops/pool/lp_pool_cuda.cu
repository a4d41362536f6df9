// lp_pool and max_pool_indices: a thread an element of the result.
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/pool/pool_windows.cuh"

namespace neap::ops {
namespace {

void run_lp(const Buffers& b, cudaStream_t stream, const Shape3& s, double power) {
  const auto* x = b.in<float>(0);
  auto* y = b.out<float>(0);
  each("lp_pool", outputs(s), stream, [=] __device__(std::int64_t i) {
    double sum = 0;
    each_inside(s, place_out(s, i), [&](int, std::int64_t at) { sum += pow(fabs(static_cast<double>(x[at])), power); });
    y[i] = static_cast<float>(pow(sum, 1 / power));
  });
}

// A tap that does not lie inside counts as the first pixel, as in the reference.
template <class Tap>
void run_indices(const Buffers& b, cudaStream_t stream, const Shape3& s, bool columns) {
  const auto* index = b.in<Tap>(0);
  auto* y = b.out<std::int64_t>(0);
  const Plane in{s.d.in, s.h.in, s.w.in};
  const std::int64_t pixels = in.d * in.h * in.w;
  each("max_pool_indices", outputs(s), stream, [=] __device__(std::int64_t i) {
    const At o = place_out(s, i);
    const auto chosen = static_cast<int>(index[i]);
    std::int64_t found = 0;
    each_inside(s, o, [&](int tap, std::int64_t at) {
      if (tap == chosen) found = at / s.c - o.n * pixels;
    });
    y[i] = (o.n * s.c + o.c) * pixels + (columns ? by_columns(in, found) : found);
  });
}

}  // namespace

Prepared lp_pool_cuda(const OpCall& call) {
  const auto power = static_cast<double>(call.attrs.integer("p", 2));
  return cuda_kernel(
      [s = forward_shape(call), power](const Buffers& b, cudaStream_t stream) { run_lp(b, stream, s, power); });
}

Prepared max_pool_indices_cuda(const OpCall& call) {
  const bool wide = call.in(0).dtype == DType::kI32;
  const bool columns = call.attrs.integer("storage_order", 0) != 0;
  const Shape3 shape(PoolWindows(call.attrs.shape("shape"), call.shape(0), call.attrs));
  return cuda_kernel([s = shape, wide, columns](const Buffers& b, cudaStream_t stream) {
    wide ? run_indices<std::int32_t>(b, stream, s, columns) : run_indices<std::uint8_t>(b, stream, s, columns);
  });
}

}  // namespace neap::ops

// A thread a line: lines are short or many where this is used.
#include "device/cuda/launch.cuh"
#include "ops/argmax/argmax.h"
#include "ops/cuda_kernel.h"

namespace neap::ops {

namespace {

void run_argmax(const Buffers& b, cudaStream_t stream, const ArgLine& line, bool is_max, bool takes_last) {
  const auto* x = b.in<float>(0);
  auto* out = b.out<std::int64_t>(0);
  each("argmax", line.outer * line.inner, stream, [=] __device__(std::int64_t o) {
    const float* from = x + o / line.inner * line.length * line.inner + o % line.inner;
    std::int64_t best = 0;
    float holder = from[0];
    for (std::int64_t t = 1; t < line.length; ++t) {
      const float challenger = from[t * line.inner];
      const bool is_nan = challenger != challenger;
      const bool ties = challenger == holder || (is_nan && holder != holder);
      const bool wins = is_max ? challenger > holder : challenger < holder;
      if (!wins && !(is_nan && holder == holder) && !(ties && takes_last)) continue;
      best = t;
      holder = challenger;
    }
    out[o] = best;
  });
}

}  // namespace

Prepared argmax_cuda(const ArgLine& line_, bool is_max, bool takes_last) {
  return cuda_kernel([line = line_, is_max, takes_last](const Buffers& b, cudaStream_t stream) {
    run_argmax(b, stream, line, is_max, takes_last);
  });
}

}  // namespace neap::ops

#include "device/cuda/launch.cuh"
#include "device/cuda/random.cuh"
#include "ops/cuda_kernel.h"
#include "ops/dropout/dropout.h"

namespace neap::ops {
namespace {

void run(const Buffers& b, cudaStream_t stream, const DropoutDraw& d) {
  const auto* x = b.in<float>(0);
  const auto* rng = b.in<std::uint64_t>(1);
  auto* y = b.out<float>(0);
  each("dropout", d.n, stream, [=] __device__(std::int64_t i) {
    const float unit = draw_unit(draw_key(rng, d.key), rng[2] + static_cast<std::uint64_t>(i));
    y[i] = unit < d.p ? 0 : x[i] * d.scale;
  });
}

}  // namespace

Prepared dropout_cuda(const OpCall& call) {
  return cuda_kernel([d = DropoutDraw(call)](const Buffers& b, cudaStream_t stream) { run(b, stream, d); });
}

}  // namespace neap::ops

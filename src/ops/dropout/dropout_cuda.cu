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
    y[i] = dropped(x[i], rng, d.key, static_cast<std::uint64_t>(i) + d.first, d.p, d.scale);
  });
}

}  // namespace

Prepared dropout_cuda(const OpCall& call) {
  return cuda_kernel([d = DropoutDraw(call)](const Buffers& b, cudaStream_t stream) { run(b, stream, d); });
}

}  // namespace neap::ops

#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/relu/gate.h"
#include "ops/relu/gate_formulas.cuh"

namespace neap::ops {
namespace {

// A warp has 32 neighbours, whose bits are four bytes of the mask.
__global__ void forward_kernel(GateFn fn, GateArgs args, const float* x, float* y, std::uint8_t* mask, std::int64_t n) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t whole = (n + 31) / 32 * 32;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < whole; i += stride) {
    const Gated g = i < n ? gate(fn, x[i], args) : Gated{0, false};
    if (i < n) y[i] = g.value;
    const unsigned bits = __ballot_sync(0xffffffffU, g.is_open);
    if (mask != nullptr && i % 8 == 0 && i < n) mask[i / 8] = static_cast<std::uint8_t>(bits >> (i % 32));
  }
}

void run_backward(const Buffers& b, cudaStream_t stream, GateArgs k, std::int64_t n) {
  const auto* dy = b.in<float>(0);
  const auto* mask = b.in<std::uint8_t>(1);
  auto* dx = b.out<float>(0);
  each("gate_grad", n, stream, [=] __device__(std::int64_t i) {
    const float slope = (mask[i / 8] >> (i % 8) & 1) != 0 ? k.open : k.closed;
    dx[i] = slope == 0 ? 0 : slope * dy[i];
  });
}

}  // namespace

Prepared gate_cuda(const OpCall& call) {
  return cuda_kernel([g = gate_call(call), n = call.in(0).elements()](const Buffers& b, cudaStream_t stream) {
    if (n == 0) return;
    forward_kernel<<<blocks_for(n), kThreads, 0, stream>>>(g.fn, g.args, b.in<float>(0), b.out<float>(0),
                                                           wanted_out<std::uint8_t>(b, 1), n);
    check_launch("gate");
  });
}

Prepared gate_grad_cuda(const OpCall& call) {
  return cuda_kernel([k = gate_call(call).args, n = call.in(0).elements()](const Buffers& b, cudaStream_t stream) {
    run_backward(b, stream, k, n);
  });
}

}  // namespace neap::ops

#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/elementwise/broadcast.cuh"
#include "ops/prelu/prelu.h"

namespace neap::ops {
namespace {

__device__ float value(PreluFn fn, float a, float b, float c, PreluArgs k) {
  switch (fn) {
    case PreluFn::kPrelu: return a < 0 ? a * b : a;
    case PreluFn::kPreluGrad: return b < 0 ? a * c : a;
    case PreluFn::kSlopeGrad: return b < 0 ? a * b : 0;
    case PreluFn::kShrink: return a < -k.lambd ? a + k.bias : a > k.lambd ? a - k.bias : a == a ? 0 : a;
    default: return b < -k.lambd || b > k.lambd ? a : 0;
  }
}

void run_prelu(const Buffers& buffers, cudaStream_t stream, const BroadcastPlan& plan, PreluFn fn,
               const PreluArgs& args) {
  const auto input = [&](std::size_t i) { return buffers.in<float>(i < buffers.inputs.size() ? i : 0); };
  const float* a = input(0);
  const float* b = input(1);
  const float* c = input(2);
  auto* out = buffers.out<float>(0);
  each("prelu", plan.count, stream, [=] __device__(std::int64_t i) {
    const BroadcastPlaces<3> at = broadcast_places<3>(plan, i);
    out[i] = value(fn, a[at.at[0]], b[at.at[1]], c[at.at[2]], args);
  });
}

}  // namespace

Prepared prelu_cuda(const BroadcastPlan& plan_, PreluFn fn, const PreluArgs& args) {
  return cuda_kernel([plan = plan_, fn, args](const Buffers& buffers, cudaStream_t stream) {
    run_prelu(buffers, stream, plan, fn, args);
  });
}

}  // namespace neap::ops

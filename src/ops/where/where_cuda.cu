#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/elementwise/broadcast.cuh"
#include "ops/elementwise/broadcast.h"
#include "ops/where/where.h"

namespace neap::ops {
namespace {

template <class T>
Prepared kernel(const BroadcastPlan& plan) {
  return cuda_kernel([plan](const Buffers& b, cudaStream_t stream) {
    const auto* condition = b.in<std::uint8_t>(0);
    const auto* x = b.in<T>(1);
    const auto* y = b.in<T>(2);
    auto* out = b.out<T>(0);
    each("where", plan.count, stream, [=] __device__(std::int64_t i) {
      const BroadcastPlaces<3> at = broadcast_places<3>(plan, i);
      out[i] = condition[at.at[0]] != 0 ? x[at.at[1]] : y[at.at[2]];
    });
  });
}

}  // namespace

Prepared where_cuda(const OpCall& call) {
  const BroadcastPlan plan = broadcast_plan(call.outputs[0].shape, {call.shape(0), call.shape(1), call.shape(2)});
  switch (byte_size(call.in(1).dtype, 1)) {
    case 1: return kernel<std::uint8_t>(plan);
    case 2: return kernel<std::uint16_t>(plan);
    case 4: return kernel<std::uint32_t>(plan);
    default: return kernel<std::uint64_t>(plan);
  }
}

}  // namespace neap::ops

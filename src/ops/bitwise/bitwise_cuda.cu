#include "device/cuda/launch.cuh"
#include "ops/bitwise/bitwise.h"
#include "ops/cuda_kernel.h"
#include "ops/elementwise/broadcast.cuh"
#include "ops/elementwise/element.h"

namespace neap::ops {
namespace {

template <class T>
void run(const Buffers& b, cudaStream_t stream, BitFn fn, const BroadcastPlan& plan, std::size_t second) {
  const auto* x = b.in<T>(0);
  const auto* y = b.in<T>(second);
  auto* out = b.out<T>(0);
  each("bitwise", plan.count, stream, [=] __device__(std::int64_t i) {
    const BroadcastPlaces<2> at = broadcast_places<2>(plan, i);
    out[i] = bitwise_value(fn, x[at.at[0]], y[at.at[1]]);
  });
}

}  // namespace

Prepared bitwise_cuda(BitFn fn, DType type, const BroadcastPlan& plan, std::size_t second) {
  return with_type(type, [&]<class T>(Type<T>) -> Prepared {
    if constexpr (kIsInteger<T>) {
      return cuda_kernel(
          [fn, plan, second](const Buffers& b, cudaStream_t stream) { run<T>(b, stream, fn, plan, second); });
    }
    return Declined{"no floats"};
  });
}

}  // namespace neap::ops

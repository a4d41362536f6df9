#include <limits>

#include "device/cuda/fault.cuh"
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/pool/pool.h"
#include "ops/pool/unpool_places.h"

namespace neap::ops {
namespace {

// Element that an index points to; -1, and a note for the host, when it is out of range.
__device__ std::int64_t place_of(const UnpoolPlaces& p, const FaultNote& fault, std::int64_t index) {
  return p.fits(index) ? p.at(index) : fault(index, p.elements) - 1;
}

// Until the last entry that points to each element is known, y holds its number.
void run(const Buffers& b, cudaStream_t stream, const UnpoolPlaces& p) {
  const auto* x = b.in<float>(0);
  const auto* indices = b.in<std::int64_t>(1);
  auto* y = b.out<float>(0);
  auto* last = b.out<int>(0);
  const FaultNote fault(fault_op("max_unpool"));
  NEAP_CHECK_CUDA(cudaMemsetAsync(y, 0xff, static_cast<std::size_t>(p.elements) * sizeof(float), stream));
  each("max_unpool", p.entries, stream, [=] __device__(std::int64_t i) {
    const std::int64_t at = place_of(p, fault, indices[i]);
    if (at >= 0) atomicMax(&last[at], static_cast<int>(i));
  });
  each("max_unpool", p.elements, stream, [=] __device__(std::int64_t e) {
    const int from = __float_as_int(y[e]);
    y[e] = from < 0 ? 0 : x[from];
  });
}

void run_grad(const Buffers& b, cudaStream_t stream, const UnpoolPlaces& p) {
  const auto* dy = b.in<float>(0);
  const auto* indices = b.in<std::int64_t>(1);
  auto* dx = b.out<float>(0);
  const FaultNote fault(fault_op("max_unpool"));
  each("max_unpool_grad", p.entries, stream, [=] __device__(std::int64_t i) {
    const std::int64_t at = place_of(p, fault, indices[i]);
    dx[i] = at < 0 ? 0 : dy[at];
  });
}

}  // namespace

Prepared max_unpool_cuda(const OpCall& call) {
  const UnpoolPlaces places(call.shape(0), call.outputs[0].shape);
  if (places.entries > std::numeric_limits<int>::max()) return Declined{"more entries than 32 bits count"};
  return cuda_kernel([p = places](const Buffers& b, cudaStream_t stream) { run(b, stream, p); });
}

Prepared max_unpool_grad_cuda(const OpCall& call) {
  return cuda_kernel([p = UnpoolPlaces(call.shape(1), call.shape(0))](const Buffers& b, cudaStream_t stream) {
    run_grad(b, stream, p);
  });
}

}  // namespace neap::ops

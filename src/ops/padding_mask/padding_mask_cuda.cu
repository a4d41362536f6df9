#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/padding_mask/padding_mask.h"

namespace neap::ops {

Prepared padding_mask_cuda(const OpCall& call) {
  return cuda_kernel([n = call.in(0).elements()](const Buffers& b, cudaStream_t stream) {
    each("padding_mask", n, stream,
         [tokens = b.in<std::int32_t>(0), targets = b.in<std::int32_t>(1), seen = b.out<std::uint8_t>(0)] __device__(
             std::int64_t i) { seen[i] = tokens[i] == kPaddingToken && targets[i] == kPaddingTarget ? 0 : 1; });
  });
}

}  // namespace neap::ops

#include "device/cuda/fault.cuh"
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/reverse_sequence/reverse_sequence.h"

namespace neap::ops {
namespace {

// A sequence whose length is out of range is noted for the host, and stays as it is.
template <class T>
void run(const Buffers& b, cudaStream_t stream, const Reversal& r) {
  const auto* x = b.in<T>(0);
  const void* lengths = b.in<void>(1);
  auto* y = b.out<T>(0);
  const FaultNote fault(fault_op("reverse_sequence"));
  each("reverse_sequence", r.steps * r.batch * r.run, stream, [=] __device__(std::int64_t e) {
    const std::int64_t line = e / r.run;
    const std::int64_t t = r.time_first ? line / r.batch : line % r.steps;
    const std::int64_t i = r.time_first ? line % r.batch : line / r.steps;
    std::int64_t length =
        r.wide ? static_cast<const std::int64_t*>(lengths)[i] : static_cast<const std::int32_t*>(lengths)[i];
    if (!r.fits(length)) length = fault(length, r.steps + 1);
    y[e] = x[r.at(Reversal::source(t, length), i) + e - line * r.run];
  });
}

}  // namespace

Prepared reverse_sequence_cuda(const Reversal& reversal, std::int64_t bytes) {
  return cuda_kernel([r = reversal, bytes](const Buffers& b, cudaStream_t stream) {
    switch (bytes) {
      case 1: return run<std::uint8_t>(b, stream, r);
      case 2: return run<std::uint16_t>(b, stream, r);
      case 4: return run<std::uint32_t>(b, stream, r);
      default: return run<std::uint64_t>(b, stream, r);
    }
  });
}

}  // namespace neap::ops

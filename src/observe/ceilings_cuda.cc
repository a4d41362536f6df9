#include "device/cuda/cuda.h"
#include "observe/ceilings.h"

namespace neap {
namespace {

int attribute(cudaDeviceAttr which) {
  int device = 0;
  int out = 0;
  NEAP_CHECK_CUDA(cudaGetDevice(&device));
  NEAP_CHECK_CUDA(cudaDeviceGetAttribute(&out, which, device));
  return out;
}

// Of a multiprocessor, each one multiply-add a cycle.
int f32_lanes() {
  const bool is_first_ampere =
      attribute(cudaDevAttrComputeCapabilityMajor) == 8 && attribute(cudaDevAttrComputeCapabilityMinor) == 0;
  return is_first_ampere ? 64 : 128;
}

}  // namespace

const Ceilings& cuda_ceilings() {
  static const Ceilings ceilings = [] {
    const double cycles = 1e3 * attribute(cudaDevAttrClockRate);           // a second
    const double transfers = 2e3 * attribute(cudaDevAttrMemoryClockRate);  // at both edges of the clock
    const double lanes = static_cast<double>(attribute(cudaDevAttrMultiProcessorCount)) * f32_lanes();
    return Ceilings{.gflops = 2e-9 * lanes * cycles,
                    .bytes_per_second = transfers * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8,
                    .caches = {}};
  }();
  return ceilings;
}

}  // namespace neap

// A thread an element of the result.
#include "device/cuda/fault.cuh"
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/roi_align/roi_align.h"

namespace neap::ops {
namespace {

void run(const Buffers& b, cudaStream_t stream, const RoiProblem& p) {
  const auto* x = b.in<float>(0);
  const auto* rois = b.in<float>(1);
  const auto* images = b.in<std::int64_t>(2);
  auto* y = b.out<float>(0);
  const FaultNote note(fault_op("roi_align"));
  each("roi_align", p.regions * p.oh * p.ow * p.c, stream, [=] __device__(std::int64_t e) {
    const std::int64_t channel = e % p.c;
    const std::int64_t j = e / p.c % p.ow;
    const std::int64_t i = e / (p.c * p.ow) % p.oh;
    const std::int64_t region = e / (p.c * p.ow * p.oh);
    std::int64_t image = images[region];
    if (image < 0 || image >= p.n) image = note(image, p.n);
    y[e] = p.bin(x + image * p.h * p.w * p.c + channel, rois + region * 4, i, j);
  });
}

}  // namespace

Prepared roi_align_cuda(const OpCall& call) {
  const RoiProblem problem = roi_problem(call);
  if (problem.n == 0) return Declined{"there are no images"};
  return cuda_kernel([p = problem](const Buffers& b, cudaStream_t stream) { run(b, stream, p); });
}

}  // namespace neap::ops

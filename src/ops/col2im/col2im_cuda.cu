// A thread an element of the result. Those of an image go pixel by pixel, since that is how the columns lie.
#include "device/cuda/launch.cuh"
#include "ops/col2im/col2im.h"
#include "ops/cuda_kernel.h"

namespace neap::ops {
namespace {

void run_sum(const Buffers& b, cudaStream_t stream, const WindowColumns& c) {
  const auto* columns = b.in<float>(0);
  auto* image = b.out<float>(0);
  each("col2im", c.image_elements(), stream, [=] __device__(std::int64_t i) {
    const std::int64_t pixel = i % c.pixels;
    const std::int64_t channel = i / c.pixels % c.channels;
    const std::int64_t n = i / (c.pixels * c.channels);
    image[(n * c.pixels + pixel) * c.channels + channel] = c.sum(columns, n, channel, pixel);
  });
}

void run_copy(const Buffers& b, cudaStream_t stream, const WindowColumns& c) {
  const auto* image = b.in<float>(0);
  auto* columns = b.out<float>(0);
  each("im2col", c.elements(), stream, [=] __device__(std::int64_t e) {
    const std::int64_t at = c.source(e);
    columns[e] = at >= 0 ? image[at] : 0;
  });
}

}  // namespace

Prepared col2im_cuda(const OpCall& call) {
  return cuda_kernel([c = window_columns(call, call.outputs[0].shape)](const Buffers& b, cudaStream_t stream) {
    run_sum(b, stream, c);
  });
}

Prepared im2col_cuda(const OpCall& call) {
  return cuda_kernel(
      [c = window_columns(call, call.shape(0))](const Buffers& b, cudaStream_t stream) { run_copy(b, stream, c); });
}

}  // namespace neap::ops

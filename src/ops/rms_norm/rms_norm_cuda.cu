#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/layer_norm/row_norm.h"
#include "ops/reduce/columns.cuh"
#include "ops/rms_norm/rms_norm.h"

namespace neap::ops {
namespace {

constexpr int kRowThreads = 128;

unsigned row_blocks(const RowNorm& s) { return static_cast<unsigned>(s.rows < kMostBlocks ? s.rows : kMostBlocks); }

// A block a row.
__global__ void forward_kernel(RowNorm s, const float* x, const float* scale, float* y, float* rstd) {
  __shared__ float scratch[kRowThreads / 32];
  for (std::int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
    const std::int64_t at = row * s.width;
    float squares = 0;
    for (std::int64_t i = threadIdx.x; i < s.width; i += kRowThreads) squares = fmaf(x[at + i], x[at + i], squares);
    const float mean = block_reduce(squares, Sum(), scratch) / static_cast<float>(s.width);
    const float over_deviation = 1 / sqrtf(mean + s.epsilon);
    for (std::int64_t i = threadIdx.x; i < s.width; i += kRowThreads) {
      const float normal = x[at + i] * over_deviation;
      y[at + i] = scale != nullptr ? normal * scale[i] : normal;
    }
    if (threadIdx.x == 0 && rstd != nullptr) rstd[row] = over_deviation;
  }
}

// dx = rstd (g - normal mean(g normal)), g = dy scale
__global__ void backward_kernel(RowNorm s, const float* dy, const float* x, const float* rstd, const float* scale,
                                float* dx) {
  __shared__ float scratch[kRowThreads / 32];
  for (std::int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
    const std::int64_t at = row * s.width;
    float product = 0;
    for (std::int64_t i = threadIdx.x; i < s.width; i += kRowThreads) {
      const float g = scale != nullptr ? dy[at + i] * scale[i] : dy[at + i];
      product = fmaf(g, x[at + i] * rstd[row], product);
    }
    product = block_reduce(product, Sum(), scratch) / static_cast<float>(s.width);
    for (std::int64_t i = threadIdx.x; i < s.width; i += kRowThreads) {
      const float g = scale != nullptr ? dy[at + i] * scale[i] : dy[at + i];
      dx[at + i] = rstd[row] * (g - x[at + i] * rstd[row] * product);
    }
  }
}

void scale_sums(const Buffers& b, cudaStream_t stream, const ColumnParts& parts) {
  const auto* dy = b.in<float>(0);
  const auto* x = b.in<float>(1);
  const auto* rstd = b.in<float>(2);
  auto* dscale = b.out<float>(1);
  sum_columns<1>(
      "rms_norm_grad", parts, b.workspace, stream,
      [=, width = parts.c] __device__(std::int64_t row, std::int64_t column, double* sums) {
        const std::int64_t at = row * width + column;
        sums[0] += static_cast<double>(dy[at]) * x[at] * rstd[row];
      },
      [=] __device__(std::int64_t column, const double* sums) { dscale[column] = static_cast<float>(sums[0]); });
}

}  // namespace

Prepared rms_norm_cuda(const OpCall& call) {
  return cuda_kernel([s = row_norm(call.shape(0), call.attrs)](const Buffers& b, cudaStream_t stream) {
    if (s.rows == 0) return;
    forward_kernel<<<row_blocks(s), kRowThreads, 0, stream>>>(s, b.in<float>(0), b.in<float>(1), b.out<float>(0),
                                                              b.out<float>(1));
    check_launch("rms_norm");
  });
}

// The scale's sums come first: dx may take the place of dy or x.
Prepared rms_norm_grad_cuda(const OpCall& call) {
  const RowNorm shape = row_norm(call.shape(1), call.attrs);
  const ColumnParts columns(shape.rows, shape.width);
  return cuda_kernel(
      [s = shape, columns](const Buffers& b, cudaStream_t stream) {
        if (b.outputs[1] != nullptr) scale_sums(b, stream, columns);
        if (b.outputs[0] == nullptr || s.rows == 0) return;
        backward_kernel<<<row_blocks(s), kRowThreads, 0, stream>>>(s, b.in<float>(0), b.in<float>(1), b.in<float>(2),
                                                                   b.in<float>(3), b.out<float>(0));
        check_launch("rms_norm_grad");
      },
      columns.bytes(1));
}

}  // namespace neap::ops

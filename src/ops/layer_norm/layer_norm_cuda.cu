#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/layer_norm/layer_norm_mixed.cuh"
#include "ops/layer_norm/row_norm.h"
#include "ops/reduce/columns.cuh"

namespace neap::ops {
namespace {

constexpr int kRowThreads = 128;

// A block a row: mean, then squared deviations from it.
__global__ void forward_kernel(RowNorm s, const float* x, const float* scale, const float* bias, float* y, float* mean,
                               float* rstd) {
  __shared__ float scratch[kRowThreads / 32];
  const auto width = static_cast<float>(s.width);
  for (std::int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
    const float* in = x + row * s.width;
    float* out = y + row * s.width;
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < s.width; i += kRowThreads) sum += in[i];
    const float centre = block_reduce(sum, Sum(), scratch) / width;
    float squares = 0;
    for (std::int64_t i = threadIdx.x; i < s.width; i += kRowThreads) {
      const float d = in[i] - centre;
      squares = fmaf(d, d, squares);
    }
    const float over_deviation = 1 / sqrtf(block_reduce(squares, Sum(), scratch) / width + s.epsilon);
    for (std::int64_t i = threadIdx.x; i < s.width; i += kRowThreads) {
      const float normal = (in[i] - centre) * over_deviation;
      out[i] = (scale != nullptr ? normal * scale[i] : normal) + (bias != nullptr ? bias[i] : 0);
    }
    if (threadIdx.x == 0 && mean != nullptr) mean[row] = centre;
    if (threadIdx.x == 0 && rstd != nullptr) rstd[row] = over_deviation;
  }
}

// dx = rstd (g - mean(g) - normal mean(g normal)) [+ start], g = dy scale
__global__ void backward_kernel(RowNorm s, const float* dy, const float* x, const float* mean, const float* rstd,
                                const float* scale, const float* start, float* dx) {
  __shared__ float scratch[kRowThreads / 32];
  const auto width = static_cast<float>(s.width);
  for (std::int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
    const std::int64_t at = row * s.width;
    float sum = 0;
    float product = 0;
    for (std::int64_t i = threadIdx.x; i < s.width; i += kRowThreads) {
      const float g = scale != nullptr ? dy[at + i] * scale[i] : dy[at + i];
      sum += g;
      product = fmaf(g, (x[at + i] - mean[row]) * rstd[row], product);
    }
    sum = block_reduce(sum, Sum(), scratch) / width;
    product = block_reduce(product, Sum(), scratch) / width;
    for (std::int64_t i = threadIdx.x; i < s.width; i += kRowThreads) {
      const float g = scale != nullptr ? dy[at + i] * scale[i] : dy[at + i];
      const float d = rstd[row] * (g - sum - (x[at + i] - mean[row]) * rstd[row] * product);
      dx[at + i] = start != nullptr ? d + start[at + i] : d;
    }
  }
}

unsigned row_blocks(const RowNorm& s) { return static_cast<unsigned>(s.rows < kMostBlocks ? s.rows : kMostBlocks); }

void parameter_sums(const Buffers& b, cudaStream_t stream, const ColumnParts& parts) {
  const auto* dy = b.in<float>(0);
  const auto* x = b.in<float>(1);
  const auto* mean = b.in<float>(2);
  const auto* rstd = b.in<float>(3);
  auto* dscale = b.out<float>(1);
  auto* dbias = b.out<float>(2);
  const std::int64_t width = parts.c;
  sum_columns<2>(
      "layer_norm_grad", parts, b.workspace, stream,
      [=] __device__(std::int64_t row, std::int64_t column, double* sums) {
        const std::int64_t at = row * width + column;
        sums[0] += dy[at] * ((x[at] - mean[row]) * rstd[row]);
        sums[1] += dy[at];
      },
      [=] __device__(std::int64_t column, const double* sums) {
        if (dscale != nullptr) dscale[column] = static_cast<float>(sums[0]);
        if (dbias != nullptr) dbias[column] = static_cast<float>(sums[1]);
      });
}

template <class X, class Y>
void run_mixed(const Buffers& b, cudaStream_t stream, const RowNorm& s) {
  const auto blocks = static_cast<unsigned>((s.rows + kRowsABlock - 1) / kRowsABlock);
  const auto kernel = s.width <= 3 * 256 ? norm_kernel<3, RowsOf<X>, Y> : norm_kernel<kMostChunks, RowsOf<X>, Y>;
  kernel<<<blocks, dim3(32, kRowsABlock), 0, stream>>>(s, {b.in<X>(0)}, b.in<float>(1), b.in<float>(2), b.out<Y>(0),
                                                       b.out<float>(1), b.out<float>(2));
  check_launch("layer_norm");
}

template <class D, class X>
void run_mixed_grad(const Buffers& b, cudaStream_t stream, const RowNorm& s) {
  const bool has_sums = b.outputs[1] != nullptr || b.outputs[2] != nullptr;
  run_norm_grad(NormGrad<D, X>{.s = s,
                               .dy = b.in<D>(0),
                               .x = b.in<X>(1),
                               .mean = b.in<float>(2),
                               .rstd = b.in<float>(3),
                               .scale = b.in<float>(4),
                               .dx = b.out<X>(0),
                               .partial = has_sums ? reinterpret_cast<float*>(b.workspace) : nullptr},
                b.out<float>(1), b.out<float>(2), stream);
}

bool is_bf16(const TensorType& t) { return t.dtype == DType::kBF16; }

constexpr const char* kUnusual = "bf16 of an unusual width or mixture";

}  // namespace

// Rows that a warp can hold.
Prepared layer_norm_mixed_cuda(const OpCall& call) {
  const RowNorm shape = row_norm(call.shape(0), call.attrs);
  const bool is_in = is_bf16(call.in(0));
  const bool is_out = is_bf16(call.outputs[0]);
  if (!fits_a_warp(shape) || (is_in && !is_out)) return Declined{kUnusual};
  return cuda_kernel([s = shape, is_in, is_out](const Buffers& b, cudaStream_t stream) {
    if (is_in) return run_mixed<Bf16, Bf16>(b, stream, s);
    is_out ? run_mixed<float, Bf16>(b, stream, s) : run_mixed<float, float>(b, stream, s);
  });
}

Prepared layer_norm_grad_mixed_cuda(const OpCall& call) {
  const RowNorm shape = row_norm(call.shape(1), call.attrs);
  const bool is_dy = is_bf16(call.in(0));
  const bool is_x = is_bf16(call.in(1));
  if (!fits_a_warp(shape) || is_bf16(call.outputs[0]) != is_x || (is_x && !is_dy)) return Declined{kUnusual};
  return cuda_kernel(
      [s = shape, is_dy, is_x](const Buffers& b, cudaStream_t stream) {
        if (is_x) return run_mixed_grad<Bf16, Bf16>(b, stream, s);
        is_dy ? run_mixed_grad<Bf16, float>(b, stream, s) : run_mixed_grad<float, float>(b, stream, s);
      },
      2 * grad_blocks(shape) * shape.width * static_cast<std::int64_t>(sizeof(float)));
}

Prepared layer_norm_cuda(const OpCall& call) {
  return cuda_kernel([s = row_norm(call.shape(0), call.attrs)](const Buffers& b, cudaStream_t stream) {
    if (s.rows == 0) return;
    forward_kernel<<<row_blocks(s), kRowThreads, 0, stream>>>(s, b.in<float>(0), b.in<float>(1), b.in<float>(2),
                                                              b.out<float>(0), b.out<float>(1), b.out<float>(2));
    check_launch("layer_norm");
  });
}

// The parameters' sums come first: dx may take the place of dy or x.
Prepared layer_norm_grad_cuda(const OpCall& call) {
  const RowNorm shape = row_norm(call.shape(1), call.attrs);
  const ColumnParts columns(shape.rows, shape.width);
  return cuda_kernel(
      [s = shape, columns](const Buffers& b, cudaStream_t stream) {
        if (b.outputs[1] != nullptr || b.outputs[2] != nullptr) parameter_sums(b, stream, columns);
        if (b.outputs[0] == nullptr || s.rows == 0) return;
        backward_kernel<<<row_blocks(s), kRowThreads, 0, stream>>>(s, b.in<float>(0), b.in<float>(1), b.in<float>(2),
                                                                   b.in<float>(3), b.in<float>(4), b.in<float>(5),
                                                                   b.out<float>(0));
        check_launch("layer_norm_grad");
      },
      columns.bytes(2));
}

}  // namespace neap::ops

// Group norm: a block has a group of an image, in double. Sums for scale and bias go column by column.
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/group_norm/group_norm.h"
#include "ops/reduce/columns.cuh"

namespace neap::ops {
namespace {

// [images, rows, c] with `width` channels a group.
struct Groups {
  std::int64_t images, rows, c, groups, width;
  double epsilon;

  explicit Groups(const GroupNorm& g)
      : images(g.columns.images),
        rows(g.columns.rows),
        c(g.columns.c),
        groups(g.groups),
        width(g.groups == 0 ? 0 : g.group_channels()),
        epsilon(g.epsilon) {}
  std::int64_t count() const { return images * groups; }
  __device__ std::int64_t elements() const { return rows * width; }
  // Element i of group `which`, and its channel.
  __device__ std::int64_t channel(std::int64_t which, std::int64_t i) const {
    return which % groups * width + i % width;
  }
  __device__ std::int64_t place(std::int64_t which, std::int64_t i) const {
    return (which / groups * rows + i / width) * c + channel(which, i);
  }
};

__global__ void forward_kernel(Groups g, const float* x, const float* scale, const float* bias, float* y, float* mean,
                               float* rstd) {
  __shared__ double scratch[kThreads / 32];
  const std::int64_t n = g.elements();
  for (std::int64_t which = blockIdx.x; which < g.images * g.groups; which += gridDim.x) {
    double sum = 0;
    for (std::int64_t i = threadIdx.x; i < n; i += kThreads) sum += x[g.place(which, i)];
    const double centre = block_reduce(sum, Sum(), scratch) / static_cast<double>(n);
    double squares = 0;
    for (std::int64_t i = threadIdx.x; i < n; i += kThreads) {
      const double d = x[g.place(which, i)] - centre;
      squares = fma(d, d, squares);
    }
    squares = block_reduce(squares, Sum(), scratch);
    const double over_deviation = 1 / sqrt(squares / static_cast<double>(n) + g.epsilon);
    for (std::int64_t i = threadIdx.x; i < n; i += kThreads) {
      const std::int64_t at = g.place(which, i);
      const std::int64_t c = g.channel(which, i);
      const double normal = (x[at] - centre) * over_deviation;
      y[at] = static_cast<float>(normal * (scale != nullptr ? scale[c] : 1) + (bias != nullptr ? bias[c] : 0));
    }
    if (threadIdx.x == 0 && mean != nullptr) mean[which] = static_cast<float>(centre);
    if (threadIdx.x == 0 && rstd != nullptr) rstd[which] = static_cast<float>(over_deviation);
  }
}

// dx = rstd (g - mean(g) - normal mean(g normal)), g = dy scale
__global__ void backward_kernel(Groups g, const float* dy, const float* x, const float* mean, const float* rstd,
                                const float* scale, float* dx) {
  __shared__ double scratch[kThreads / 32];
  const std::int64_t n = g.elements();
  for (std::int64_t which = blockIdx.x; which < g.images * g.groups; which += gridDim.x) {
    const double centre = mean[which];
    const double over_deviation = rstd[which];
    const auto scaled = [&](std::int64_t i) {
      const double d = dy[g.place(which, i)];
      return scale != nullptr ? d * scale[g.channel(which, i)] : d;
    };
    const auto normal = [&](std::int64_t i) { return (x[g.place(which, i)] - centre) * over_deviation; };
    double sum = 0;
    double product = 0;
    for (std::int64_t i = threadIdx.x; i < n; i += kThreads) {
      sum += scaled(i);
      product = fma(scaled(i), normal(i), product);
    }
    sum = block_reduce(sum, Sum(), scratch) / static_cast<double>(n);
    product = block_reduce(product, Sum(), scratch) / static_cast<double>(n);
    for (std::int64_t i = threadIdx.x; i < n; i += kThreads) {
      dx[g.place(which, i)] = static_cast<float>(over_deviation * (scaled(i) - sum - normal(i) * product));
    }
  }
}

void parameter_sums(const Buffers& b, cudaStream_t stream, const Groups& g, const ColumnParts& parts) {
  const auto* dy = b.in<float>(0);
  const auto* x = b.in<float>(1);
  const auto* mean = b.in<float>(2);
  const auto* rstd = b.in<float>(3);
  auto* dscale = b.out<float>(1);
  auto* dbias = b.out<float>(2);
  sum_columns<2>(
      "group_norm_grad", parts, b.workspace, stream,
      [=] __device__(std::int64_t row, std::int64_t column, double* sums) {
        const std::int64_t at = row * g.c + column;
        const std::int64_t which = row / g.rows * g.groups + column / g.width;
        sums[0] = fma(static_cast<double>(dy[at]), (static_cast<double>(x[at]) - mean[which]) * rstd[which], sums[0]);
        sums[1] += dy[at];
      },
      [=] __device__(std::int64_t column, const double* sums) {
        if (dscale != nullptr) dscale[column] = static_cast<float>(sums[0]);
        if (dbias != nullptr) dbias[column] = static_cast<float>(sums[1]);
      });
}

unsigned group_blocks(const Groups& g) {
  return static_cast<unsigned>(g.count() < kMostBlocks ? g.count() : kMostBlocks);
}

constexpr const char* kNothing = "nothing to normalise";

}  // namespace

Prepared group_norm_cuda(const OpCall& call) {
  const Groups groups(group_norm_of(call.shape(0), call.attrs));
  if (groups.rows == 0) return Declined{kNothing};
  return cuda_kernel([g = groups](const Buffers& b, cudaStream_t stream) {
    forward_kernel<<<group_blocks(g), kThreads, 0, stream>>>(g, b.in<float>(0), b.in<float>(1), b.in<float>(2),
                                                             b.out<float>(0), b.out<float>(1), b.out<float>(2));
    check_launch("group_norm");
  });
}

// The parameters' sums come first: dx may take the place of dy or x.
Prepared group_norm_grad_cuda(const OpCall& call) {
  const Groups groups(group_norm_of(call.shape(1), call.attrs));
  if (groups.rows == 0) return Declined{kNothing};
  const ColumnParts parts(groups.images * groups.rows, groups.c);
  return cuda_kernel(
      [g = groups, parts](const Buffers& b, cudaStream_t stream) {
        if (b.outputs[1] != nullptr || b.outputs[2] != nullptr) parameter_sums(b, stream, g, parts);
        if (b.outputs[0] == nullptr) return;
        backward_kernel<<<group_blocks(g), kThreads, 0, stream>>>(g, b.in<float>(0), b.in<float>(1), b.in<float>(2),
                                                                  b.in<float>(3), b.in<float>(4), b.out<float>(0));
        check_launch("group_norm_grad");
      },
      parts.bytes(2));
}

}  // namespace neap::ops

#include "core/bytes.h"
#include "device/cuda/launch.cuh"
#include "ops/batch_norm/batch_norm.h"
#include "ops/cuda_kernel.h"
#include "ops/reduce/columns.cuh"

namespace neap::ops {
namespace {

bool has(const Attrs& attrs, const char* name) { return attrs.integer(name, 0) != 0; }

// Sums of x and of its squares in double: what cancels is far below a float's rounding.
void run_stats(const Buffers& b, cudaStream_t stream, const ColumnParts& s, double epsilon) {
  const auto* x = b.in<float>(0);
  auto* mean = b.out<float>(0);
  auto* rstd = b.out<float>(1);
  auto* var = b.out<float>(2);
  const std::int64_t c = s.c;
  const auto rows = static_cast<double>(s.rows);
  sum_columns<2>(
      "batch_stats", s, b.workspace, stream,
      [=] __device__(std::int64_t row, std::int64_t column, double* sums) {
        const double v = x[row * c + column];
        sums[0] += v;
        sums[1] = fma(v, v, sums[1]);
      },
      [=] __device__(std::int64_t column, const double* sums) {
        const double centre = sums[0] / rows;
        const double spread = fmax(sums[1] / rows - centre * centre, 0.0);
        if (mean != nullptr) mean[column] = static_cast<float>(centre);
        if (rstd != nullptr) rstd[column] = static_cast<float>(1 / sqrt(spread + epsilon));
        if (var != nullptr) var[column] = static_cast<float>(spread);
      });
}

void run_frozen(const Buffers& b, cudaStream_t stream, std::int64_t c, double epsilon) {
  const auto* from_mean = b.in<float>(0);
  const auto* from_var = b.in<float>(1);
  auto* mean = b.out<float>(0);
  auto* rstd = b.out<float>(1);
  each("frozen_stats", c, stream, [=] __device__(std::int64_t i) {
    if (mean != nullptr) mean[i] = from_mean[i];
    if (rstd != nullptr) rstd[i] = static_cast<float>(1 / sqrt(static_cast<double>(from_var[i]) + epsilon));
  });
}

void run_running(const Buffers& b, cudaStream_t stream, std::int64_t c, float rate, float unbias) {
  auto* running_mean = b.state<float>(0);
  auto* running_var = b.state<float>(1);
  const auto* mean = b.in<float>(2);
  const auto* var = b.in<float>(3);
  each("running_stats", c, stream, [=] __device__(std::int64_t i) {
    running_mean[i] += rate * (mean[i] - running_mean[i]);
    running_var[i] += rate * (var[i] * unbias - running_var[i]);
  });
}

// y, and a mask whose bits a warp collects.
struct Apply {
  std::int64_t n, c;
  const float *x, *mean, *rstd, *scale, *bias, *residual;
  bool relu;
  float* y;
  std::uint8_t* mask;
};

__global__ void apply_kernel(const __grid_constant__ Apply a) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t whole = (a.n + 31) / 32 * 32;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < whole; i += stride) {
    float v = 0;
    if (i < a.n) {
      const std::int64_t c = i % a.c;
      v = fmaf(a.scale[c] * a.rstd[c], a.x[i] - a.mean[c], a.bias[c]);
      if (a.residual != nullptr) v += a.residual[i];
      if (a.relu && v < 0) v = 0;
      a.y[i] = v;
    }
    const unsigned bits = __ballot_sync(0xffffffffU, v > 0);
    if (a.mask != nullptr && i % 8 == 0 && i < a.n) a.mask[i / 8] = static_cast<std::uint8_t>(bits >> (i % 32));
  }
}

// dy behind the relu: by the mask, or by the sign of the same formula as in apply_kernel.
struct Gated {
  std::int64_t c;
  const float *dy, *x, *mean, *rstd, *scale, *bias;
  const std::uint8_t* mask;
  bool relu;

  __device__ float operator()(std::int64_t i, std::int64_t column) const {
    const float d = dy[i];
    if (!relu) return d;
    if (mask != nullptr) return (mask[i / 8] >> (i % 8) & 1) != 0 ? d : 0;
    return fmaf(scale[column] * rstd[column], x[i] - mean[column], bias[column]) > 0 ? d : 0;
  }
};

// dx = scale rstd (g - sum(g) / m - (x - mean) rstd^2 sum(g (x - mean)) / m): its factors k of each column.
void run_grad(const Buffers& b, cudaStream_t stream, const ColumnParts& s, bool relu, bool frozen) {
  const Gated g{.c = s.c,
                .dy = b.in<float>(kDy),
                .x = b.in<float>(kX),
                .mean = b.in<float>(kMean),
                .rstd = b.in<float>(kRstd),
                .scale = b.in<float>(kScale),
                .bias = b.in<float>(kBias),
                .mask = b.in<std::uint8_t>(kMask),
                .relu = relu};
  auto* k = reinterpret_cast<float*>(b.workspace + align_up(s.bytes(2)));
  auto* dscale = b.out<float>(1);
  auto* dbias = b.out<float>(2);
  const std::int64_t c = s.c;
  const auto m = static_cast<double>(s.rows);
  sum_columns<2>(
      "batch_norm_grad", s, b.workspace, stream,
      [=] __device__(std::int64_t row, std::int64_t column, double* sums) {
        const std::int64_t i = row * c + column;
        const float d = g(i, column);
        sums[0] += d;
        sums[1] = fma(static_cast<double>(d), static_cast<double>(g.x[i]) - g.mean[column], sums[1]);
      },
      [=] __device__(std::int64_t column, const double* sums) {
        const double rstd = g.rstd[column];
        const double k0 = g.scale[column] * rstd;
        if (dscale != nullptr) dscale[column] = static_cast<float>(sums[1] * rstd);
        if (dbias != nullptr) dbias[column] = static_cast<float>(sums[0]);
        k[column] = static_cast<float>(k0);
        k[c + column] = frozen ? 0 : static_cast<float>(k0 * sums[0] / m);
        k[2 * c + column] = frozen ? 0 : static_cast<float>(k0 * rstd * rstd * sums[1] / m);
      });
  auto* dx = b.out<float>(0);
  auto* dresidual = b.out<float>(3);
  if (dx == nullptr && dresidual == nullptr) return;
  each("batch_norm_grad", s.rows * c, stream, [=] __device__(std::int64_t i) {
    const std::int64_t column = i % c;
    const float d = g(i, column);
    const float centred = g.x[i] - g.mean[column];
    if (dx != nullptr) dx[i] = k[column] * d - k[c + column] - centred * k[2 * c + column];
    if (dresidual != nullptr) dresidual[i] = d;
  });
}

void run_frozen_grad(const Buffers& b, cudaStream_t stream, std::int64_t n, std::int64_t c) {
  const auto* dy = b.in<float>(0);
  const auto* rstd = b.in<float>(1);
  const auto* scale = b.in<float>(2);
  const auto* mask = b.in<std::uint8_t>(3);
  auto* dx = b.out<float>(0);
  auto* dresidual = b.out<float>(1);
  each("batch_norm_frozen_grad", n, stream, [=] __device__(std::int64_t i) {
    const float g = mask == nullptr || (mask[i / 8] >> (i % 8) & 1) != 0 ? dy[i] : 0;
    if (dresidual != nullptr) dresidual[i] = g;
    if (dx != nullptr) dx[i] = g * (rstd[i % c] * scale[i % c]);
  });
}

ColumnParts parts_of(const Shape& x) { return {rows_of(x).rows, x.size(-1)}; }

}  // namespace

Prepared batch_stats_cuda(const OpCall& call) {
  const ColumnParts s = parts_of(call.shape(0));
  return cuda_kernel([s, epsilon = call.attrs.real("epsilon", 1e-5)](
                         const Buffers& b, cudaStream_t stream) { run_stats(b, stream, s, epsilon); },
                     s.bytes(2));
}

Prepared frozen_stats_cuda(const OpCall& call) {
  return cuda_kernel([c = call.shape(0).count(), epsilon = call.attrs.real("epsilon", 1e-5)](
                         const Buffers& b, cudaStream_t stream) { run_frozen(b, stream, c, epsilon); });
}

Prepared running_stats_cuda(const OpCall& call) {
  const double rows = call.attrs.has("rows") ? static_cast<double>(call.attrs.shape("rows").count()) : 0;
  const auto unbias = static_cast<float>(rows > 1 ? rows / (rows - 1) : 1);
  return cuda_kernel([c = call.shape(0).count(), rate = static_cast<float>(call.attrs.real("rate")), unbias](
                         const Buffers& b, cudaStream_t stream) { run_running(b, stream, c, rate, unbias); });
}

Prepared batch_norm_apply_cuda(const OpCall& call) {
  return cuda_kernel([n = call.in(0).elements(), c = call.shape(0).size(-1), relu = has(call.attrs, "relu")](
                         const Buffers& b, cudaStream_t stream) {
    if (n == 0) return;
    apply_kernel<<<blocks_for(n), kThreads, 0, stream>>>({n, c, b.in<float>(0), b.in<float>(1), b.in<float>(2),
                                                          b.in<float>(3), b.in<float>(4), b.in<float>(5), relu,
                                                          b.out<float>(0), b.out<std::uint8_t>(1)});
    check_launch("batch_norm_apply");
  });
}

Prepared batch_norm_grad_cuda(const OpCall& call) {
  const ColumnParts s = parts_of(call.shape(kDy));
  return cuda_kernel([s, relu = has(call.attrs, "relu"), frozen = has(call.attrs, "frozen")](
                         const Buffers& b, cudaStream_t stream) { run_grad(b, stream, s, relu, frozen); },
                     align_up(s.bytes(2)) + 3 * s.c * static_cast<std::int64_t>(sizeof(float)));
}

Prepared batch_norm_frozen_grad_cuda(const OpCall& call) {
  return cuda_kernel([n = call.in(0).elements(), c = call.shape(0).size(-1)](const Buffers& b, cudaStream_t stream) {
    run_frozen_grad(b, stream, n, c);
  });
}

}  // namespace neap::ops

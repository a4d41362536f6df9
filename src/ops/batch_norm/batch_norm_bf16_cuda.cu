// Batch norm of bf16, eight channels a thread: the formulas of batch_norm_cuda.cu. A mask's byte is one thread's.
#include "ops/batch_norm/batch_norm.h"
#include "ops/cuda_kernel.h"
#include "ops/reduce/columns8.cuh"

namespace neap::ops {
namespace {

bool has(const Attrs& attrs, const char* name) { return attrs.integer(name, 0) != 0; }

struct StatsTerm {
  const Bf16* x;
  std::int64_t c;
  __device__ void operator()(std::int64_t row, std::int64_t column, float (&sums)[2][kVector]) const {
    float v[kVector];
    load8(x + row * c + column, v);
    for (int i = 0; i < kVector; ++i) {
      sums[0][i] += v[i];
      sums[1][i] = fmaf(v[i], v[i], sums[1][i]);
    }
  }
};

struct StatsFinish {
  double rows, epsilon;
  float *mean, *rstd, *var;
  __device__ void operator()(std::int64_t column, const double* sums) const {
    const double centre = sums[0] / rows;
    const double spread = fmax(sums[1] / rows - centre * centre, 0.0);
    if (mean != nullptr) mean[column] = static_cast<float>(centre);
    if (rstd != nullptr) rstd[column] = static_cast<float>(1 / sqrt(spread + epsilon));
    if (var != nullptr) var[column] = static_cast<float>(spread);
  }
};

struct Apply {
  std::int64_t n, c;
  const Bf16* x;
  const float *mean, *rstd, *scale, *bias;
  const Bf16* residual;
  bool relu;
  Bf16* y;
  std::uint8_t* mask;
};

__global__ void __launch_bounds__(kThreads) apply_kernel(const __grid_constant__ Apply a) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * kVector;
  for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kVector; i < a.n;
       i += stride) {
    const std::int64_t c = i % a.c;
    float v[kVector], mean[kVector], rstd[kVector], scale[kVector], bias[kVector];
    load8(a.x + i, v);
    load8(a.mean + c, mean);
    load8(a.rstd + c, rstd);
    load8(a.scale + c, scale);
    load8(a.bias + c, bias);
    for (int k = 0; k < kVector; ++k) v[k] = fmaf(scale[k] * rstd[k], v[k] - mean[k], bias[k]);
    if (a.residual != nullptr) {
      float more[kVector];
      load8(a.residual + i, more);
      for (int k = 0; k < kVector; ++k) v[k] += more[k];
    }
    unsigned bits = 0;
    for (int k = 0; k < kVector; ++k) {
      if (a.relu && v[k] < 0) v[k] = 0;
      bits |= v[k] > 0 ? 1U << k : 0;
    }
    store8(a.y + i, v);
    if (a.mask != nullptr) a.mask[i / kVector] = static_cast<std::uint8_t>(bits);
  }
}

// dy behind the relu: by the mask, or by the sign of the same formula as in apply_kernel.
struct Gated {
  std::int64_t c;
  const Bf16 *dy, *x;
  const float *mean, *rstd, *scale, *bias;
  const std::uint8_t* mask;
  bool relu;

  // `centred` is x - mean.
  __device__ void load(std::int64_t i, std::int64_t column, float (&d)[kVector], float (&centred)[kVector]) const {
    float centre[kVector];
    load8(dy + i, d);
    load8(x + i, centred);
    load8(mean + column, centre);
    for (int k = 0; k < kVector; ++k) centred[k] -= centre[k];
    if (!relu) return;
    if (mask != nullptr) {
      const unsigned bits = mask[i / kVector];
      for (int k = 0; k < kVector; ++k) d[k] = (bits >> k & 1U) != 0 ? d[k] : 0;
      return;
    }
    for (int k = 0; k < kVector; ++k) {
      d[k] = fmaf(scale[column + k] * rstd[column + k], centred[k], bias[column + k]) > 0 ? d[k] : 0;
    }
  }
};

struct GradTerm {
  Gated g;
  __device__ void operator()(std::int64_t row, std::int64_t column, float (&sums)[2][kVector]) const {
    float d[kVector];
    float centred[kVector];
    g.load(row * g.c + column, column, d, centred);
    for (int k = 0; k < kVector; ++k) {
      sums[0][k] += d[k];
      sums[1][k] = fmaf(d[k], centred[k], sums[1][k]);
    }
  }
};

// dx = k0 d - k1 - (x - mean) k2
struct GradFinish {
  double rows;
  bool frozen;
  std::int64_t c;
  const float *rstd, *scale;
  float *dscale, *dbias, *k;
  __device__ void operator()(std::int64_t column, const double* sums) const {
    const double over_deviation = rstd[column];
    const double k0 = scale[column] * over_deviation;
    if (dscale != nullptr) dscale[column] = static_cast<float>(sums[1] * over_deviation);
    if (dbias != nullptr) dbias[column] = static_cast<float>(sums[0]);
    k[column] = static_cast<float>(k0);
    k[c + column] = frozen ? 0 : static_cast<float>(k0 * sums[0] / rows);
    k[2 * c + column] = frozen ? 0 : static_cast<float>(k0 * over_deviation * over_deviation * sums[1] / rows);
  }
};

__global__ void __launch_bounds__(kThreads)
    dx_kernel(Gated g, std::int64_t n, const float* factors, Bf16* dx, Bf16* dresidual) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * kVector;
  for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kVector; i < n;
       i += stride) {
    const std::int64_t column = i % g.c;
    float d[kVector], centred[kVector], k0[kVector], k1[kVector], k2[kVector];
    g.load(i, column, d, centred);
    load8(factors + column, k0);
    load8(factors + g.c + column, k1);
    load8(factors + 2 * g.c + column, k2);
    if (dresidual != nullptr) store8(dresidual + i, d);
    for (int k = 0; k < kVector; ++k) d[k] = k0[k] * d[k] - k1[k] - centred[k] * k2[k];
    if (dx != nullptr) store8(dx + i, d);
  }
}

unsigned vector_blocks(std::int64_t n) { return blocks_for(n / kVector); }

ColumnParts8 parts_of(const Shape& x) { return {rows_of(x).rows, x.size(-1)}; }

bool is_bf16(const OpCall& call, std::initializer_list<std::size_t> inputs) {
  for (const std::size_t i : inputs) {
    if (call.has(i) && call.in(i).dtype != DType::kBF16) return false;
  }
  return true;
}

constexpr const char* kReason = "bf16 of a multiple of 8 channels only";

}  // namespace

Prepared batch_stats_bf16_cuda(const OpCall& call) {
  if (!is_bf16(call, {0}) || call.in(0).elements() == 0 || !ColumnParts8::fits(call.shape(0).size(-1))) {
    return Declined{kReason};
  }
  const ColumnParts8 parts = parts_of(call.shape(0));
  return cuda_kernel(
      [s = parts, epsilon = call.attrs.real("epsilon", 1e-5)](const Buffers& b, cudaStream_t stream) {
        sum_columns8<2>(
            "batch_stats", s, b.workspace, stream, StatsTerm{b.in<Bf16>(0), s.c},
            StatsFinish{static_cast<double>(s.rows), epsilon, b.out<float>(0), b.out<float>(1), b.out<float>(2)});
      },
      parts.bytes(2));
}

Prepared batch_norm_apply_bf16_cuda(const OpCall& call) {
  const bool fits = is_bf16(call, {0, 5}) && call.outputs[0].dtype == DType::kBF16 && call.in(0).elements() > 0 &&
                    ColumnParts8::fits(call.shape(0).size(-1));
  if (!fits) return Declined{kReason};
  return cuda_kernel([n = call.in(0).elements(), c = call.shape(0).size(-1), relu = has(call.attrs, "relu")](
                         const Buffers& b, cudaStream_t stream) {
    apply_kernel<<<vector_blocks(n), kThreads, 0, stream>>>({n, c, b.in<Bf16>(0), b.in<float>(1), b.in<float>(2),
                                                             b.in<float>(3), b.in<float>(4), b.in<Bf16>(5), relu,
                                                             b.out<Bf16>(0), b.out<std::uint8_t>(1)});
    check_launch("batch_norm_apply");
  });
}

// The sums come first: dx may take the place of dy or x.
Prepared batch_norm_grad_bf16_cuda(const OpCall& call) {
  const bool fits = is_bf16(call, {kDy, kX}) && call.outputs[0].dtype == DType::kBF16 && call.in(kDy).elements() > 0 &&
                    (call.outputs.size() < 4 || call.outputs[3].dtype == DType::kBF16) &&
                    ColumnParts8::fits(call.shape(kDy).size(-1));
  if (!fits) return Declined{kReason};
  const ColumnParts8 parts = parts_of(call.shape(kDy));
  return cuda_kernel(
      [s = parts, relu = has(call.attrs, "relu"), frozen = has(call.attrs, "frozen")](const Buffers& b,
                                                                                      cudaStream_t stream) {
        const Gated g{s.c,
                      b.in<Bf16>(kDy),
                      b.in<Bf16>(kX),
                      b.in<float>(kMean),
                      b.in<float>(kRstd),
                      b.in<float>(kScale),
                      b.in<float>(kBias),
                      b.in<std::uint8_t>(kMask),
                      relu};
        auto* factors = reinterpret_cast<float*>(b.workspace + s.bytes(2));
        sum_columns8<2>("batch_norm_grad", s, b.workspace, stream, GradTerm{g},
                        GradFinish{static_cast<double>(s.rows), frozen, s.c, g.rstd, g.scale, b.out<float>(1),
                                   b.out<float>(2), factors});
        Bf16* dresidual = wanted_out<Bf16>(b, 3);
        if (b.outputs[0] == nullptr && dresidual == nullptr) return;
        const std::int64_t n = s.rows * s.c;
        dx_kernel<<<vector_blocks(n), kThreads, 0, stream>>>(g, n, factors, b.out<Bf16>(0), dresidual);
        check_launch("batch_norm_grad");
      },
      parts.bytes(2) + 3 * parts.c * static_cast<std::int64_t>(sizeof(float)));
}

}  // namespace neap::ops

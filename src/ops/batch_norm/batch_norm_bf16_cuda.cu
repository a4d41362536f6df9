// Batch norm of bf16, eight channels a thread: the formulas of batch_norm_cuda.cu. A mask's byte is one thread's.
#include "ops/batch_norm/batch_norm.h"
#include "ops/batch_norm/columns_bf16.cuh"
#include "ops/cuda_kernel.h"

namespace neap::ops {
namespace {

bool has(const Attrs& attrs, const char* name) { return attrs.integer(name, 0) != 0; }

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
  ColumnParts8 s;
  const Bf16* x;
  const float *mean, *rstd, *scale, *bias;
  const Bf16* residual;
  bool relu;
  Bf16* y;
  std::uint8_t* mask;
};

// What eight columns share.
struct Affine {
  float mean[kVector], slope[kVector], bias[kVector];
  __device__ Affine(std::int64_t c, const float* mean_, const float* rstd, const float* scale, const float* bias_) {
    float deviation[kVector];
    load8(mean_ + c, mean);
    load8(rstd + c, deviation);
    load8(scale + c, slope);
    load8(bias_ + c, bias);
    for (int k = 0; k < kVector; ++k) slope[k] *= deviation[k];
  }
};

__device__ void apply_row(const Apply& a, const Affine& f, std::int64_t i, const uint4& x, const uint4& residual) {
  float v[kVector];
  widen_raw(x, v);
  for (int k = 0; k < kVector; ++k) v[k] = fmaf(f.slope[k], v[k] - f.mean[k], f.bias[k]);
  if (a.residual != nullptr) {
    float more[kVector];
    widen_raw(residual, more);
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

__global__ void __launch_bounds__(256, 2) apply_kernel(const __grid_constant__ Apply a) {
  const std::int64_t column = a.s.column();
  if (column >= a.s.c) return;
  const Affine f(column, a.mean, a.rstd, a.scale, a.bias);
  const std::int64_t end = a.s.end_row();
  const int step = a.s.row_step();
  for (std::int64_t row = a.s.first_row(); row < end; row += kBatch * step) {
    uint4 x[kBatch], residual[kBatch];
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      const std::int64_t i = (row + n * step) * a.s.c + column;
      if (row + n * step >= end) break;
      x[n] = load_raw(a.x + i);
      if (a.residual != nullptr) residual[n] = load_raw(a.residual + i);
    }
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      if (row + n * step >= end) break;
      apply_row(a, f, (row + n * step) * a.s.c + column, x[n], residual[n]);
    }
  }
}

enum class Gate : std::uint8_t { kOpen, kMask, kSign };

// dy behind the relu: by the mask, or by the sign of the same formula as in apply_row.
struct Gated {
  std::int64_t c;
  const Bf16 *dy, *x;
  const float *mean, *rstd, *scale, *bias;
  const std::uint8_t* mask;
  Gate gate;
};

struct GatedRow {
  uint4 dy, x;
  unsigned bits;
};

// Of eight columns.
template <Gate kGate>
struct GatedColumns {
  const Bf16 *dy, *x;
  const std::uint8_t* mask;
  float mean[kVector], slope[kVector], bias[kVector];

  __device__ GatedColumns(const Gated& g, std::int64_t column) : dy(g.dy), x(g.x), mask(g.mask) {
    load8(g.mean + column, mean);
    if constexpr (kGate == Gate::kSign) {
      float deviation[kVector];
      load8(g.rstd + column, deviation);
      load8(g.scale + column, slope);
      load8(g.bias + column, bias);
      for (int k = 0; k < kVector; ++k) slope[k] *= deviation[k];
    }
  }
  __device__ GatedRow load(std::int64_t i) const {
    return {load_raw(dy + i), load_raw(x + i), kGate == Gate::kMask ? mask[i / kVector] : 0U};
  }
  // `centred` is x - mean.
  __device__ void gate(const GatedRow& row, float (&d)[kVector], float (&centred)[kVector]) const {
    widen_raw(row.dy, d);
    widen_raw(row.x, centred);
    for (int k = 0; k < kVector; ++k) {
      centred[k] -= mean[k];
      if constexpr (kGate == Gate::kMask) d[k] = (row.bits >> k & 1U) != 0 ? d[k] : 0;
      if constexpr (kGate == Gate::kSign) d[k] = fmaf(slope[k], centred[k], bias[k]) > 0 ? d[k] : 0;
    }
  }
};

template <Gate kGate>
struct GradTerm {
  Gated g;
  __device__ auto at(std::int64_t column) const {
    return [columns = GatedColumns<kGate>(g, column), c = g.c, column](std::int64_t row, float(&sums)[2][kVector]) {
      float d[kVector];
      float centred[kVector];
      columns.gate(columns.load(row * c + column), d, centred);
      for (int k = 0; k < kVector; ++k) {
        sums[0][k] += d[k];
        sums[1][k] = fmaf(d[k], centred[k], sums[1][k]);
      }
    };
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

struct Dx {
  ColumnParts8 s;
  Gated g;
  const float* factors;
  Bf16 *dx, *dresidual;
};

template <Gate kGate>
__global__ void __launch_bounds__(256, 2) dx_kernel(const __grid_constant__ Dx t) {
  const std::int64_t column = t.s.column();
  if (column >= t.s.c) return;
  const GatedColumns<kGate> columns(t.g, column);
  float k0[kVector], k1[kVector], k2[kVector];
  load8(t.factors + column, k0);
  load8(t.factors + t.s.c + column, k1);
  load8(t.factors + 2 * t.s.c + column, k2);
  const std::int64_t end = t.s.end_row();
  const int step = t.s.row_step();
  for (std::int64_t row = t.s.first_row(); row < end; row += kBatch * step) {
    GatedRow rows[kBatch];
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      if (row + n * step < end) rows[n] = columns.load((row + n * step) * t.s.c + column);
    }
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      if (row + n * step >= end) break;
      const std::int64_t i = (row + n * step) * t.s.c + column;
      float d[kVector], centred[kVector];
      columns.gate(rows[n], d, centred);
      if (t.dresidual != nullptr) store8(t.dresidual + i, d);
      for (int k = 0; k < kVector; ++k) d[k] = k0[k] * d[k] - k1[k] - centred[k] * k2[k];
      if (t.dx != nullptr) store8(t.dx + i, d);
    }
  }
}

template <Gate kGate>
void run_grad(const Dx& t, const GradFinish& finish, std::byte* workspace, cudaStream_t stream) {
  sum_columns8<2>("batch_norm_grad", t.s, workspace, stream, GradTerm<kGate>{t.g}, finish);
  if (t.dx == nullptr && t.dresidual == nullptr) return;
  dx_kernel<kGate><<<t.s.grid(), dim3(32, kColumnWarps8), 0, stream>>>(t);
  check_launch("batch_norm_grad");
}

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
            "batch_stats", s, b.workspace, stream, SquaresTerm{b.in<Bf16>(0), s.c},
            StatsFinish{static_cast<double>(s.rows), epsilon, b.out<float>(0), b.out<float>(1), b.out<float>(2)});
      },
      parts.bytes(2));
}

Prepared batch_norm_apply_bf16_cuda(const OpCall& call) {
  const bool fits = is_bf16(call, {0, 5}) && call.outputs[0].dtype == DType::kBF16 && call.in(0).elements() > 0 &&
                    ColumnParts8::fits(call.shape(0).size(-1));
  if (!fits) return Declined{kReason};
  return cuda_kernel([s = parts_of(call.shape(0)), relu = has(call.attrs, "relu")](const Buffers& b,
                                                                                   cudaStream_t stream) {
    apply_kernel<<<s.grid(), dim3(32, kColumnWarps8), 0, stream>>>({s, b.in<Bf16>(0), b.in<float>(1), b.in<float>(2),
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
        const auto* mask = b.in<std::uint8_t>(kMask);
        const Gated g{.c = s.c,
                      .dy = b.in<Bf16>(kDy),
                      .x = b.in<Bf16>(kX),
                      .mean = b.in<float>(kMean),
                      .rstd = b.in<float>(kRstd),
                      .scale = b.in<float>(kScale),
                      .bias = b.in<float>(kBias),
                      .mask = mask,
                      .gate = !relu             ? Gate::kOpen
                              : mask != nullptr ? Gate::kMask
                                                : Gate::kSign};
        auto* factors = reinterpret_cast<float*>(b.workspace + s.bytes(2));
        const GradFinish finish{
            static_cast<double>(s.rows), frozen, s.c, g.rstd, g.scale, b.out<float>(1), b.out<float>(2), factors};
        const Dx t{s, g, factors, b.out<Bf16>(0), wanted_out<Bf16>(b, 3)};
        switch (g.gate) {
          case Gate::kOpen: return run_grad<Gate::kOpen>(t, finish, b.workspace, stream);
          case Gate::kMask: return run_grad<Gate::kMask>(t, finish, b.workspace, stream);
          case Gate::kSign: return run_grad<Gate::kSign>(t, finish, b.workspace, stream);
        }
      },
      parts.bytes(2) + 3 * parts.c * static_cast<std::int64_t>(sizeof(float)));
}

}  // namespace neap::ops

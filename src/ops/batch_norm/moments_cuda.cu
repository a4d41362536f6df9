// Statistics of a batch in parts: the formulas of moments.cc, in f32 and, eight channels a thread, in bf16.
#include "device/cuda/launch.cuh"
#include "ops/batch_norm/batch_norm.h"
#include "ops/batch_norm/columns_bf16.cuh"
#include "ops/cuda_kernel.h"
#include "ops/reduce/columns.cuh"

namespace neap::ops {
namespace {

// From the sums of x and of its squares.
struct MomentsFinish {
  double rows;
  float *mean, *m2;
  __device__ void operator()(std::int64_t column, const double* sums) const {
    const double centre = rows > 0 ? sums[0] / rows : 0;
    mean[column] = static_cast<float>(centre);
    m2[column] = static_cast<float>(fmax(sums[1] - sums[0] * centre, 0.0));
  }
};

void run_moments(const Buffers& b, cudaStream_t stream, const ColumnParts& s) {
  const auto* x = b.in<float>(0);
  sum_columns<2>(
      "moments", s, b.workspace, stream,
      [x, c = s.c] __device__(std::int64_t row, std::int64_t column, double* sums) {
        const double v = x[row * c + column];
        sums[0] += v;
        sums[1] = fma(v, v, sums[1]);
      },
      MomentsFinish{static_cast<double>(s.rows), b.out<float>(0), b.out<float>(1)});
}

// Inputs of moments_grad.
struct MomentsGrad {
  std::int64_t rows, c;
  const void* x;
  const float *mean, *dmean, *dm2;
  const void* sum;
  void* dx;

  MomentsGrad(const Buffers& b, std::int64_t rows_, std::int64_t c_)
      : rows(rows_),
        c(c_),
        x(b.in<void>(0)),
        mean(b.in<float>(1)),
        dmean(b.in<float>(2)),
        dm2(b.in<float>(3)),
        sum(b.in<void>(4)),
        dx(b.outputs[0]) {}
  // dx = sum + shift + slope (x - mean)
  __device__ float shift(std::int64_t column) const {
    return dmean != nullptr ? dmean[column] / static_cast<float>(rows) : 0;
  }
  __device__ float slope(std::int64_t column) const { return dm2 != nullptr ? 2 * dm2[column] : 0; }
};

void run_grad(const MomentsGrad& g, cudaStream_t stream) {
  each("moments_grad", g.rows * g.c, stream, [g] __device__(std::int64_t i) {
    const std::int64_t column = i % g.c;
    const float start = g.sum != nullptr ? static_cast<const float*>(g.sum)[i] : 0;
    const float centred = static_cast<const float*>(g.x)[i] - g.mean[column];
    static_cast<float*>(g.dx)[i] = fmaf(g.slope(column), centred, start + g.shift(column));
  });
}

__global__ void __launch_bounds__(256, 2)
    grad_bf16_kernel(const __grid_constant__ ColumnParts8 s, const __grid_constant__ MomentsGrad g) {
  const std::int64_t column = s.column();
  if (column >= s.c) return;
  float mean[kVector], shift[kVector], slope[kVector];
  load8(g.mean + column, mean);
  for (int k = 0; k < kVector; ++k) {
    shift[k] = g.shift(column + k);
    slope[k] = g.slope(column + k);
  }
  const auto* from = static_cast<const Bf16*>(g.x);
  const auto* start = static_cast<const Bf16*>(g.sum);
  const std::int64_t end = s.end_row();
  const int step = s.row_step();
  for (std::int64_t row = s.first_row(); row < end; row += kBatch * step) {
    uint4 x[kBatch], sum[kBatch];
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      const std::int64_t i = (row + n * step) * s.c + column;
      if (row + n * step >= end) break;
      x[n] = load_raw(from + i);
      sum[n] = start != nullptr ? load_raw(start + i) : uint4{};
    }
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      if (row + n * step >= end) break;
      float v[kVector], d[kVector];
      widen_raw(x[n], v);
      widen_raw(sum[n], d);
      for (int k = 0; k < kVector; ++k) d[k] = fmaf(slope[k], v[k] - mean[k], d[k] + shift[k]);
      store8(static_cast<Bf16*>(g.dx) + (row + n * step) * s.c + column, d);
    }
  }
}

// Parts whose addresses one launch takes; more of them are taken in turns.
constexpr std::int64_t kMostParts = 64;

struct Merge {
  std::int64_t c, before, parts;  // parts in earlier launches, and in this one
  double rows;                    // of a part
  const float *mean_of[kMostParts], *m2_of[kMostParts];
  double* carried;  // mean and m2 of the parts before, in double
  bool is_last;
  double epsilon;
  float *mean, *rstd, *var;
};

__global__ void merge_kernel(const __grid_constant__ Merge t) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= t.c) return;
  double mean = t.before > 0 ? t.carried[c] : t.mean_of[0][c];
  double m2 = t.before > 0 ? t.carried[t.c + c] : t.m2_of[0][c];
  for (std::int64_t p = t.before > 0 ? 0 : 1; p < t.parts; ++p) {
    const double before = static_cast<double>(t.before + p) * t.rows;
    const double share = t.rows / (before + t.rows);
    const double delta = t.mean_of[p][c] - mean;
    mean += delta * share;
    m2 += t.m2_of[p][c] + delta * delta * share * before;
  }
  if (!t.is_last) {
    t.carried[c] = mean;
    t.carried[t.c + c] = m2;
    return;
  }
  const double var = m2 / (static_cast<double>(t.before + t.parts) * t.rows);
  if (t.mean != nullptr) t.mean[c] = static_cast<float>(mean);
  if (t.rstd != nullptr) t.rstd[c] = static_cast<float>(1 / sqrt(var + t.epsilon));
  if (t.var != nullptr) t.var[c] = static_cast<float>(var);
}

void run_merge(const Buffers& b, cudaStream_t stream, std::int64_t c, std::int64_t rows, double epsilon) {
  const auto all = static_cast<std::int64_t>(b.inputs.size()) / 2;
  for (std::int64_t first = 0; first < all; first += kMostParts) {
    Merge t{.c = c,
            .before = first,
            .parts = all - first < kMostParts ? all - first : kMostParts,
            .rows = static_cast<double>(rows),
            .carried = reinterpret_cast<double*>(b.workspace),
            .is_last = all - first <= kMostParts,
            .epsilon = epsilon,
            .mean = b.out<float>(0),
            .rstd = b.out<float>(1),
            .var = b.out<float>(2)};
    for (std::int64_t p = 0; p < t.parts; ++p) {
      t.mean_of[p] = b.in<float>(static_cast<std::size_t>(2 * (first + p)));
      t.m2_of[p] = b.in<float>(static_cast<std::size_t>(2 * (first + p) + 1));
    }
    merge_kernel<<<blocks_for(c, 128), 128, 0, stream>>>(t);
    check_launch("merge_moments");
  }
}

struct MergeGrad {
  std::int64_t c, parts;  // parts in this launch
  double share, rows;     // of a part
  const float *dmean, *drstd, *mean, *rstd;
  const float* mean_of[kMostParts];
  float *dmean_of[kMostParts], *dm2_of[kMostParts];
};

__global__ void merge_grad_kernel(const __grid_constant__ MergeGrad t) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= t.c) return;
  const double mean = t.mean[c];
  const double rstd = t.rstd[c];
  const double dmean = t.dmean != nullptr ? t.dmean[c] : 0;
  const double dvar = t.drstd != nullptr ? -0.5 * rstd * rstd * rstd * t.drstd[c] : 0;
  for (std::int64_t p = 0; p < t.parts; ++p) {
    const double off = t.mean_of[p][c] - mean;
    t.dmean_of[p][c] = static_cast<float>((dmean + 2 * dvar * off) * t.share);
    t.dm2_of[p][c] = static_cast<float>(dvar * t.share / t.rows);
  }
}

void run_merge_grad(const Buffers& b, cudaStream_t stream, std::int64_t c, std::int64_t rows) {
  const auto all = static_cast<std::int64_t>(b.inputs.size()) - kFirstMean;
  for (std::int64_t first = 0; first < all; first += kMostParts) {
    MergeGrad t{.c = c,
                .parts = all - first < kMostParts ? all - first : kMostParts,
                .share = 1 / static_cast<double>(all),
                .rows = static_cast<double>(rows),
                .dmean = b.in<float>(kDMean),
                .drstd = b.in<float>(kDRstd),
                .mean = b.in<float>(kWholeMean),
                .rstd = b.in<float>(kWholeRstd)};
    for (std::int64_t p = 0; p < t.parts; ++p) {
      t.mean_of[p] = b.in<float>(static_cast<std::size_t>(kFirstMean + first + p));
      t.dmean_of[p] = b.out<float>(static_cast<std::size_t>(2 * (first + p)));
      t.dm2_of[p] = b.out<float>(static_cast<std::size_t>(2 * (first + p) + 1));
    }
    merge_grad_kernel<<<blocks_for(c, 128), 128, 0, stream>>>(t);
    check_launch("merge_moments_grad");
  }
}

void run_stats_grad(const Buffers& b, cudaStream_t stream, std::int64_t c) {
  const auto* scale = b.in<float>(0);
  const auto* rstd = b.in<float>(1);
  const auto* dscale = b.in<float>(2);
  const auto* dbias = b.in<float>(3);
  auto* dmean = b.out<float>(0);
  auto* drstd = b.out<float>(1);
  each("batch_norm_stats_grad", c, stream, [=] __device__(std::int64_t i) {
    const double factor = scale[i];
    const double deviation = rstd[i];
    if (dmean != nullptr) dmean[i] = static_cast<float>(-factor * deviation * dbias[i]);
    if (drstd != nullptr) drstd[i] = static_cast<float>(factor * dscale[i] / deviation);
  });
}

bool is_for_vectors(const OpCall& call) {
  const bool has_f32_sum = call.has(4) && call.in(4).dtype != DType::kBF16;
  return call.in(0).dtype == DType::kBF16 && !has_f32_sum && call.in(0).elements() > 0 &&
         ColumnParts8::fits(call.shape(0).size(-1));
}
constexpr const char* kReason = "bf16 of a multiple of 8 channels only";

}  // namespace

Prepared moments_cuda(const OpCall& call) {
  const ColumnParts s(rows_of(call.shape(0)).rows, call.shape(0).size(-1));
  return cuda_kernel([s](const Buffers& b, cudaStream_t stream) { run_moments(b, stream, s); }, s.bytes(2));
}

Prepared moments_bf16_cuda(const OpCall& call) {
  if (!is_for_vectors(call)) return Declined{kReason};
  const ColumnParts8 s(rows_of(call.shape(0)).rows, call.shape(0).size(-1));
  return cuda_kernel(
      [s](const Buffers& b, cudaStream_t stream) {
        sum_columns8<2>("moments", s, b.workspace, stream, SquaresTerm{b.in<Bf16>(0), s.c},
                        MomentsFinish{static_cast<double>(s.rows), b.out<float>(0), b.out<float>(1)});
      },
      s.bytes(2));
}

Prepared moments_grad_cuda(const OpCall& call) {
  return cuda_kernel(
      [rows = rows_of(call.shape(0)).rows, c = call.shape(0).size(-1)](const Buffers& b, cudaStream_t stream) {
        run_grad({b, rows, c}, stream);
      });
}

Prepared moments_grad_bf16_cuda(const OpCall& call) {
  if (!is_for_vectors(call) || call.outputs[0].dtype != DType::kBF16) return Declined{kReason};
  const ColumnParts8 s(rows_of(call.shape(0)).rows, call.shape(0).size(-1));
  return cuda_kernel([s](const Buffers& b, cudaStream_t stream) {
    grad_bf16_kernel<<<s.grid(), dim3(32, kColumnWarps8), 0, stream>>>(s, {b, s.rows, s.c});
    check_launch("moments_grad");
  });
}

Prepared merge_moments_cuda(const OpCall& call) {
  const std::int64_t c = call.shape(0).count();
  const bool has_turns = static_cast<std::int64_t>(call.inputs.size()) > 2 * kMostParts;
  return cuda_kernel([c, rows = call.attrs.integer("rows"), epsilon = call.attrs.real("epsilon", 1e-5)](
                         const Buffers& b, cudaStream_t stream) { run_merge(b, stream, c, rows, epsilon); },
                     has_turns ? 2 * c * static_cast<std::int64_t>(sizeof(double)) : 0);
}

Prepared merge_moments_grad_cuda(const OpCall& call) {
  return cuda_kernel([c = call.shape(kWholeMean).count(), rows = call.attrs.integer("rows")](
                         const Buffers& b, cudaStream_t stream) { run_merge_grad(b, stream, c, rows); });
}

Prepared batch_norm_stats_grad_cuda(const OpCall& call) {
  return cuda_kernel(
      [c = call.shape(0).count()](const Buffers& b, cudaStream_t stream) { run_stats_grad(b, stream, c); });
}

}  // namespace neap::ops

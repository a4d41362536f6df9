// Reductions in double, in an order that depends on the shape alone.
#include <algorithm>

#include "ops/cuda_kernel.h"
#include "ops/reduce/columns.cuh"
#include "ops/reduce/columns8.cuh"
#include "ops/reduce/reduce.h"

namespace neap::ops {

ColumnParts::ColumnParts(std::int64_t rows_, std::int64_t c_) : rows(rows_), c(c_) {
  constexpr std::int64_t kLeastRows = 64;
  constexpr std::int64_t kBlocks = 1024;  // enough for every multiprocessor
  const std::int64_t strips = std::max<std::int64_t>(1, (c + 31) / 32);
  const std::int64_t wanted = std::clamp<std::int64_t>(kBlocks / strips, 1, 512);
  part_rows = std::max(kLeastRows, (rows + wanted - 1) / wanted);
  parts = std::max<std::int64_t>(1, (rows + part_rows - 1) / part_rows);
}

void column_sums_cuda(const ColumnParts& parts, const float* x, const float* start, float* out, std::byte* workspace,
                      cudaStream_t stream) {
  const std::int64_t c = parts.c;
  sum_columns<1>(
      "column_sums", parts, workspace, stream,
      [=] __device__(std::int64_t row, std::int64_t column, double* sums) { sums[0] += x[row * c + column]; },
      [=] __device__(std::int64_t column, const double* sums) {
        out[column] = static_cast<float>(start != nullptr ? start[column] + sums[0] : sums[0]);
      });
}

std::int64_t bf16_column_bytes(std::int64_t rows, std::int64_t c) { return ColumnParts8(rows, c).bytes(1); }

namespace {

struct ColumnTerm {
  const Bf16* x;
  std::int64_t c;
  __device__ auto at(std::int64_t column) const {
    return [*this, column](std::int64_t row, float(&sums)[1][kVector]) {
      float v[kVector];
      load8(x + row * c + column, v);
      for (int i = 0; i < kVector; ++i) sums[0][i] += v[i];
    };
  }
};

}  // namespace

void bf16_column_sums_cuda(std::int64_t rows, std::int64_t c, const void* x, bool adds, float* out,
                           std::byte* workspace, cudaStream_t stream) {
  sum_columns8<1>("column_sums", ColumnParts8(rows, c), workspace, stream, ColumnTerm{static_cast<const Bf16*>(x), c},
                  [=] __device__(std::int64_t column, const double* sums) {
                    out[column] = static_cast<float>(adds ? out[column] + sums[0] : sums[0]);
                  });
}

void add_parts_cuda(const MatrixParts& s, const float* partial, const float* bias, bool adds, float* out,
                    cudaStream_t stream) {
  each("add_parts", s.rows * s.columns, stream, [=] __device__(std::int64_t i) {
    double sum = adds ? out[i] : 0;
    for (std::int64_t p = 0; p < s.parts; ++p) sum += partial[p * s.step + i];
    if (bias != nullptr) sum += bias[i % s.columns];
    out[i] = static_cast<float>(sum);
  });
}

void add_to_rows_cuda(float* y, const float* bias, std::int64_t rows, std::int64_t c, cudaStream_t stream) {
  each("bias", rows * c, stream, [=] __device__(std::int64_t i) { y[i] += bias[i % c]; });
}

namespace {

__device__ double start_of(ReduceFn fn) {
  switch (fn) {
    case ReduceFn::kProd: return 1;
    case ReduceFn::kMax: return -INFINITY;
    case ReduceFn::kMin: return INFINITY;
    default: return 0;
  }
}

__device__ double term_of(ReduceFn fn, double x, double centre) {
  switch (fn) {
    case ReduceFn::kL1: return fabs(x);
    case ReduceFn::kL2:
    case ReduceFn::kSumSquare: return x * x;
    case ReduceFn::kLogSumExp: return isinf(centre) ? (x == centre ? 1 : 0) : exp(x - centre);
    default: return x;
  }
}

__device__ double combined(ReduceFn fn, double a, double b) {
  switch (fn) {
    case ReduceFn::kProd: return a * b;
    case ReduceFn::kMax: return a > b || isnan(a) ? a : b;
    case ReduceFn::kMin: return a < b || isnan(a) ? a : b;
    default: return a + b;
  }
}

__device__ double finished(ReduceFn fn, double total, double terms, double centre) {
  switch (fn) {
    case ReduceFn::kMean: return total / terms;
    case ReduceFn::kL2: return sqrt(total);
    case ReduceFn::kLogSumExp: return log(total) + centre;
    default: return total;
  }
}

__device__ std::int64_t place(const ReducePlan::Axes& axes, std::int64_t i) {
  std::int64_t at = 0;
  for (int a = axes.rank - 1; a >= 0; --a) {
    at += i % axes.dims[a] * axes.strides[a];
    i /= axes.dims[a];
  }
  return at;
}

struct Job {
  ReducePlan plan;
  ReduceFn fn;
  std::int64_t parts;
  const float* x;
  const float* centre;  // null: none
  double* partial;      // [parts][outputs]
};

// The terms of a result lie side by side: a block a result and part.
__global__ void rows_kernel(const __grid_constant__ Job job) {
  __shared__ double scratch[kThreads / 32];
  const std::int64_t terms = job.plan.reduced.count;
  const std::int64_t per_part = (terms + job.parts - 1) / job.parts;
  const std::int64_t first = blockIdx.y * per_part;
  const std::int64_t end = first + per_part < terms ? first + per_part : terms;
  for (std::int64_t o = blockIdx.x; o < job.plan.kept.count; o += gridDim.x) {
    const float* x = job.x + place(job.plan.kept, o);
    const double centre = job.centre != nullptr ? job.centre[o] : 0;
    double total = start_of(job.fn);
    for (std::int64_t t = first + threadIdx.x; t < end; t += blockDim.x) {
      total = combined(job.fn, total, term_of(job.fn, x[place(job.plan.reduced, t)], centre));
    }
    total = block_reduce(
        total, [&](double a, double b) { return combined(job.fn, a, b); }, scratch);
    if (threadIdx.x == 0) job.partial[blockIdx.y * job.plan.kept.count + o] = total;
  }
}

// Neighbours belong to different results: a thread a result and part.
__global__ void columns_kernel(const __grid_constant__ Job job) {
  const std::int64_t o = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (o >= job.plan.kept.count) return;
  const std::int64_t terms = job.plan.reduced.count;
  const std::int64_t per_part = (terms + job.parts - 1) / job.parts;
  const std::int64_t first = blockIdx.y * per_part;
  const std::int64_t end = first + per_part < terms ? first + per_part : terms;
  const float* x = job.x + place(job.plan.kept, o);
  const double centre = job.centre != nullptr ? job.centre[o] : 0;
  double total = start_of(job.fn);
  for (std::int64_t t = first; t < end; ++t) {
    total = combined(job.fn, total, term_of(job.fn, x[place(job.plan.reduced, t)], centre));
  }
  job.partial[blockIdx.y * job.plan.kept.count + o] = total;
}

void finish(const Job& job, float* y, cudaStream_t stream) {
  const ReduceFn fn = job.fn;
  const std::int64_t outputs = job.plan.kept.count;
  const std::int64_t parts = job.parts;
  const auto terms = static_cast<double>(job.plan.reduced.count);
  const double* partial = job.partial;
  const float* centre = job.centre;
  each("reduce_finish", outputs, stream, [=] __device__(std::int64_t o) {
    double total = start_of(fn);
    for (std::int64_t p = 0; p < parts; ++p) total = combined(fn, total, partial[p * outputs + o]);
    y[o] = static_cast<float>(finished(fn, total, terms, centre != nullptr ? centre[o] : 0));
  });
}

// Enough blocks for the card, and at least some hundred terms a thread block.
std::int64_t parts_of(const ReducePlan& p) {
  const std::int64_t blocks = p.keeps_innermost ? (p.outputs() + kThreads - 1) / kThreads : p.outputs();
  const std::int64_t least_terms = p.keeps_innermost ? 16 : 4 * kThreads;
  return std::clamp<std::int64_t>(1024 / std::max<std::int64_t>(blocks, 1), 1,
                                  std::max<std::int64_t>(1, p.terms() / least_terms));
}

void run(const Job& job, float* y, cudaStream_t stream) {
  const std::int64_t outputs = job.plan.outputs();
  if (outputs == 0) return;
  const auto parts = static_cast<unsigned>(job.parts);
  if (job.plan.keeps_innermost) {
    columns_kernel<<<dim3(static_cast<unsigned>((outputs + kThreads - 1) / kThreads), parts), kThreads, 0, stream>>>(
        job);
  } else {
    const auto blocks = static_cast<unsigned>(std::min(outputs, kMostBlocks));
    rows_kernel<<<dim3(blocks, parts), kThreads, 0, stream>>>(job);
  }
  check_launch("reduce");
  finish(job, y, stream);
}

Prepared kernel(ReduceFn fn, const ReducePlan& plan) {
  const std::int64_t parts = parts_of(plan);
  return cuda_kernel(
      [=](const Buffers& b, cudaStream_t stream) {
        Job job{.plan = plan, .fn = fn, .parts = parts, .x = b.in<float>(0), .centre = nullptr};
        job.partial = reinterpret_cast<double*>(b.workspace);
        if (fn == ReduceFn::kLogSumExp) {
          job.fn = ReduceFn::kMax;
          run(job, b.out<float>(0), stream);
          job.fn = fn;
          job.centre = b.out<float>(0);
        }
        run(job, b.out<float>(0), stream);
      },
      parts * plan.outputs() * static_cast<std::int64_t>(sizeof(double)));
}

struct Pointers {
  static constexpr int kMost = 256;
  const float* at[kMost];
};

// Adds the square sums of some tensors to *sum; behind the last, writes scale and norm.
__global__ void clip_kernel(const __grid_constant__ Pointers sums, int count, bool is_first, bool is_last,
                            double max_norm, double* sum, float* out) {
  double total = is_first ? 0 : *sum;
  for (int i = 0; i < count; ++i) total += *sums.at[i];
  *sum = total;
  if (!is_last) return;
  const double norm = sqrt(total);
  const double scale = max_norm / (norm + 1e-6);
  out[0] = static_cast<float>(scale > 1 ? 1 : scale);
  out[1] = static_cast<float>(norm);
}

}  // namespace

Prepared reduce_cuda(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32) return Declined{"f32 only"};
  const Reduction reduction(call.attrs, call.shape(0).rank());
  return kernel(reduce_fn(call.op->name), reduce_plan(call.shape(0), reduction.is_reduced));
}

Prepared sum_to_cuda(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32) return Declined{"f32 only"};
  return kernel(ReduceFn::kSum, reduce_plan(call.shape(0), broadcast_axes(call.shape(0), call.outputs[0].shape)));
}

Prepared square_sum_cuda(const OpCall& call) {
  const Shape& shape = call.shape(0);
  return kernel(ReduceFn::kSumSquare,
                reduce_plan(shape, std::vector<bool>(static_cast<std::size_t>(shape.rank()), true)));
}

Prepared clip_scale_cuda(const OpCall& call) {
  const auto count = static_cast<int>(call.inputs.size());
  return cuda_kernel(
      [count, max_norm = call.attrs.real("max_norm")](const Buffers& b, cudaStream_t stream) {
        for (int first = 0; first < count; first += Pointers::kMost) {
          Pointers sums{};
          const int here = std::min(Pointers::kMost, count - first);
          for (int i = 0; i < here; ++i) sums.at[i] = b.in<float>(static_cast<std::size_t>(first + i));
          clip_kernel<<<1, 1, 0, stream>>>(sums, here, first == 0, first + here == count, max_norm,
                                           reinterpret_cast<double*>(b.workspace), b.out<float>(0));
          check_launch("clip_scale");
        }
      },
      sizeof(double));
}

}  // namespace neap::ops

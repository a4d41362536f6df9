// The two calls on CUDA. No float is added by two threads: an element's sum is one thread's, in the order of the picks.
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/update/steps.cuh"
#include "ops/update_rows/update_rows.h"

namespace neap::ops {
namespace {

constexpr std::size_t kMostLookups = 4;

struct Lookup {
  const void* ids;
  const float* dy;
  int count;
  bool wide;

  __device__ std::int64_t row(int i) const {
    return wide ? static_cast<const std::int64_t*>(ids)[i] : static_cast<const std::int32_t*>(ids)[i];
  }
};

// Ids out of range are the lookup's to complain of; here they pick nothing.
struct Lookups {
  Lookup each[kMostLookups];
  int count;
};

Lookups lookups_of(const UpdateRows& u, const Buffers& b) {
  Lookups out{.count = static_cast<int>(u.lookups.size())};
  for (std::size_t l = 0; l < u.lookups.size(); ++l) {
    out.each[l] = {u.ids(b, l), u.dy(b, l), static_cast<int>(u.lookups[l].count), u.lookups[l].wide};
  }
  return out;
}

struct Table {
  float *param, *m, *v;
  const float* hyper;
  std::int64_t rows, width;
  UpdateRule rule;
  bool decoupled, nesterov;

  __device__ void step(std::int64_t at, float grad) const {
    if (rule == UpdateRule::kAdam) {
      Adam(hyper, nullptr, decoupled).step(param[at], grad, m[at], v[at]);
    } else {
      sgd_step(param[at], grad, m != nullptr ? m + at : nullptr, hyper, nullptr, nesterov);
    }
  }
};

Table table_of(const UpdateRows& u, const Buffers& b) {
  return {b.state<float>(0), b.state<float>(2), b.state<float>(3), b.in<float>(kHyper), u.rows, u.width, u.rule,
          u.decoupled,       u.nesterov};
}

void run_rest(const UpdateRows& u, const Buffers& b, cudaStream_t stream) {
  const std::int64_t first = u.first;
  const std::int64_t count = u.last - u.first;
  const std::int64_t width = u.width;
  if (count == 0 || width == 0) return;
  auto* is_picked = reinterpret_cast<unsigned char*>(b.workspace);
  NEAP_CHECK_CUDA(cudaMemsetAsync(is_picked, 0, static_cast<std::size_t>(count), stream));
  const auto* grad = b.in<float>(1);
  const auto* before = b.in<float>(kKept);
  auto* kept = b.out<float>(0);
  const Lookups lookups = lookups_of(u, b);
  for (int l = 0; l < lookups.count; ++l) {
    const Lookup lookup = lookups.each[l];
    each("rest_update", lookup.count * width, stream, [=] __device__(std::int64_t i) {
      const std::int64_t row = lookup.row(static_cast<int>(i / width)) - first;
      const bool is_here = row >= 0 && row < count;
      if (is_here && i % width == 0) is_picked[row] = 1;
      kept[i] = is_here ? grad[row * width + i % width] : before != nullptr ? before[i] : 0.0F;
    });
    kept += lookup.count * width;
    if (before != nullptr) before += lookup.count * width;
  }
  const Table table = table_of(u, b);
  each("rest_update", count * width, stream, [=] __device__(std::int64_t i) {
    if (table.hyper[7] == 0 || is_picked[i / width] != 0) return;  // put off, or for the other call
    table.step(first * width + i, grad[i] + 0.0F);
  });
}

// Whether any pick before place `place` is of this row.
__device__ bool was_picked(const Lookups& lookups, int place, std::int64_t row) {
  bool found = false;
  for (int l = 0, base = 0; l < lookups.count && base < place; base += lookups.each[l++].count) {
    const int last = min(lookups.each[l].count, place - base);
    for (int i = static_cast<int>(threadIdx.x); i < last; i += kThreads) found |= lookups.each[l].row(i) == row;
  }
  return __syncthreads_or(found ? 1 : 0) != 0;
}

// What a lookup adds to a row in column c, in the order of its ids. All threads of the block come along.
__device__ float sum_of(const Lookup& lookup, std::int64_t row, std::int64_t c, std::int64_t width, bool* hits) {
  float part = 0;
  for (int base = 0; base < lookup.count; base += kThreads) {
    const int own = base + static_cast<int>(threadIdx.x);
    const bool is_hit = own < lookup.count && lookup.row(own) == row;
    hits[threadIdx.x] = is_hit;
    if (__syncthreads_or(is_hit ? 1 : 0) != 0 && c < width) {
      for (int k = 0; k < kThreads; ++k) {
        if (hits[k]) part += lookup.dy[(base + k) * width + c];
      }
    }
    __syncthreads();
  }
  return part;
}

// A block has one pick and some of the columns; the first pick of a row does the row's work.
__global__ void __launch_bounds__(kThreads)
    rows_kernel(const __grid_constant__ Lookups lookups, Table table, const float* kept) {
  __shared__ bool hits[kThreads];
  if (table.hyper[7] == 0) return;  // put off
  const int place = static_cast<int>(blockIdx.x);
  int l = 0;
  int base = 0;
  for (; place - base >= lookups.each[l].count; ++l) base += lookups.each[l].count;
  const std::int64_t row = lookups.each[l].row(place - base);
  if (row < 0 || row >= table.rows || was_picked(lookups, place, row)) return;
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  float sum = c < table.width ? kept[place * table.width + c] : 0.0F;
  for (int k = 0; k < lookups.count; ++k) sum += sum_of(lookups.each[k], row, c, table.width, hits);
  if (c < table.width) table.step(row * table.width + c, sum);
}

void run_rows(const UpdateRows& u, const Buffers& b, cudaStream_t stream) {
  if (u.picks == 0 || u.width == 0) return;
  const dim3 grid(static_cast<unsigned>(u.picks), static_cast<unsigned>((u.width + kThreads - 1) / kThreads));
  rows_kernel<<<grid, kThreads, 0, stream>>>(lookups_of(u, b), table_of(u, b), b.in<float>(1));
  check_launch("rows_update");
}

}  // namespace

Prepared rest_update_cuda(const OpCall& call) {
  const UpdateRows u = update_rows_of(call);
  if (u.lookups.size() > kMostLookups) return Declined{"at most four lookups"};
  return cuda_kernel([u](const Buffers& b, cudaStream_t stream) { run_rest(u, b, stream); }, u.last - u.first);
}

Prepared rows_update_cuda(const OpCall& call) {
  const UpdateRows u = update_rows_of(call);
  if (u.lookups.size() > kMostLookups || u.picks > INT32_MAX) return Declined{"at most four lookups"};
  return cuda_kernel([u](const Buffers& b, cudaStream_t stream) { run_rows(u, b, stream); });
}

}  // namespace neap::ops

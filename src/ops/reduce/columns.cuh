// Columns summed over rows with a function of one's own: a block takes 32 columns, its 8 warps rows in turn.
#pragma once

#include "device/cuda/launch.cuh"
#include "ops/reduce/columns_cuda.h"

namespace neap::ops {

inline constexpr int kColumnWarps = 8;

// term(row, column, sums) adds K numbers to sums. partial is [K][parts][c].
template <int K, class Term>
__global__ void column_partials_kernel(std::int64_t rows, std::int64_t c, std::int64_t part_rows, Term term,
                                       double* partial) {
  __shared__ double shared[K][kColumnWarps][32];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * part_rows;
  const std::int64_t end = first + part_rows < rows ? first + part_rows : rows;
  double sums[K] = {};
  if (column < c) {
    for (std::int64_t row = first + threadIdx.y; row < end; row += kColumnWarps) term(row, column, sums);
  }
  for (int k = 0; k < K; ++k) shared[k][threadIdx.y][threadIdx.x] = sums[k];
  __syncthreads();
  if (threadIdx.y != 0 || column >= c) return;
  for (int k = 0; k < K; ++k) {
    double total = 0;
    for (int w = 0; w < kColumnWarps; ++w) total += shared[k][w][threadIdx.x];
    partial[(k * static_cast<std::int64_t>(gridDim.y) + blockIdx.y) * c + column] = total;
  }
}

// finish(column, sums) with the K totals of each column.
template <int K, class Finish>
__global__ void column_finish_kernel(std::int64_t parts, std::int64_t c, const double* partial, Finish finish) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= c) return;
  double sums[K] = {};
  for (int k = 0; k < K; ++k) {
    for (std::int64_t p = 0; p < parts; ++p) sums[k] += partial[(k * parts + p) * c + column];
  }
  finish(column, sums);
}

template <int K, class Term, class Finish>
void sum_columns(const char* name, const ColumnParts& s, std::byte* workspace, cudaStream_t stream, Term term,
                 Finish finish) {
  if (s.c == 0) return;
  auto* partial = reinterpret_cast<double*>(workspace);
  const dim3 grid(static_cast<unsigned>((s.c + 31) / 32), static_cast<unsigned>(s.parts));
  column_partials_kernel<K><<<grid, dim3(32, kColumnWarps), 0, stream>>>(s.rows, s.c, s.part_rows, term, partial);
  check_launch(name);
  column_finish_kernel<K><<<static_cast<unsigned>((s.c + 127) / 128), 128, 0, stream>>>(s.parts, s.c, partial, finish);
  check_launch(name);
}

}  // namespace neap::ops

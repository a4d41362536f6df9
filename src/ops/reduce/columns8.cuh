// Columns summed over rows, eight columns a thread: for tensors whose width is a multiple of 8. Sums of a few hundred
// rows are in f32, theirs in double; the order depends on the shape alone.
#pragma once

#include "core/bytes.h"
#include "device/cuda/floats.cuh"
#include "device/cuda/launch.cuh"

namespace neap::ops {

struct ColumnParts8 {
  std::int64_t rows = 0, c = 0;
  std::int64_t parts = 1, part_rows = 0;

  ColumnParts8(std::int64_t rows_, std::int64_t c_) : rows(rows_), c(c_) {
    constexpr std::int64_t kBlocks = 792;  // six a multiprocessor of the largest cards
    constexpr std::int64_t kLeastRows = 32;
    const std::int64_t strips = (c + 255) / 256;
    const std::int64_t wanted = kBlocks / strips < 1 ? 1 : kBlocks / strips;
    part_rows = (rows + wanted - 1) / wanted;
    if (part_rows < kLeastRows) part_rows = kLeastRows;
    parts = rows == 0 ? 1 : (rows + part_rows - 1) / part_rows;
  }
  static bool fits(std::int64_t c) { return c > 0 && c % kVector == 0; }
  std::int64_t bytes(int sums) const { return align_up(parts * c * sums * static_cast<std::int64_t>(sizeof(double))); }
};

inline constexpr int kColumnWarps8 = 8;

// term(row, column, sums) adds to K sums of each of 8 columns. partial is [K][parts][c].
template <int K, class Term>
__global__ void __launch_bounds__(256) column_partials8_kernel(ColumnParts8 s, Term term, double* partial) {
  __shared__ float shared[kColumnWarps8][32][kVector + 1];
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x) * kVector;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * s.part_rows;
  const std::int64_t end = first + s.part_rows < s.rows ? first + s.part_rows : s.rows;
  float sums[K][kVector] = {};
  if (column < s.c) {
#pragma unroll 4
    for (std::int64_t row = first + threadIdx.y; row < end; row += kColumnWarps8) term(row, column, sums);
  }
  // A thread adds up one column of the 256 over the 8 warps.
  const int number = static_cast<int>(threadIdx.y * 32 + threadIdx.x);
  const std::int64_t own = static_cast<std::int64_t>(blockIdx.x) * 32 * kVector + number;
  for (int k = 0; k < K; ++k) {
    for (int i = 0; i < kVector; ++i) shared[threadIdx.y][threadIdx.x][i] = sums[k][i];
    __syncthreads();
    double total = 0;
    for (int w = 0; w < kColumnWarps8; ++w) total += shared[w][number / kVector][number % kVector];
    if (own < s.c) partial[(k * s.parts + blockIdx.y) * s.c + own] = total;
    __syncthreads();
  }
}

// finish(column, sums) with the K totals of each column: 8 threads a column, each a run of parts.
template <int K, class Finish>
__global__ void __launch_bounds__(256) column_finish8_kernel(ColumnParts8 s, const double* partial, Finish finish) {
  __shared__ double shared[K][kColumnWarps8][32];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x;
  const std::int64_t run = (s.parts + kColumnWarps8 - 1) / kColumnWarps8;
  const std::int64_t first = threadIdx.y * run;
  const std::int64_t end = first + run < s.parts ? first + run : s.parts;
  for (int k = 0; k < K; ++k) {
    double total = 0;
    if (column < s.c) {
#pragma unroll 8
      for (std::int64_t p = first; p < end; ++p) total += partial[(k * s.parts + p) * s.c + column];
    }
    shared[k][threadIdx.y][threadIdx.x] = total;
  }
  __syncthreads();
  if (threadIdx.y != 0 || column >= s.c) return;
  double sums[K];
  for (int k = 0; k < K; ++k) {
    sums[k] = 0;
    for (int w = 0; w < kColumnWarps8; ++w) sums[k] += shared[k][w][threadIdx.x];
  }
  finish(column, sums);
}

template <int K, class Term, class Finish>
void sum_columns8(const char* name, const ColumnParts8& s, std::byte* workspace, cudaStream_t stream, Term term,
                  Finish finish) {
  auto* partial = reinterpret_cast<double*>(workspace);
  const dim3 grid(static_cast<unsigned>((s.c + 255) / 256), static_cast<unsigned>(s.parts));
  column_partials8_kernel<K><<<grid, dim3(32, kColumnWarps8), 0, stream>>>(s, term, partial);
  check_launch(name);
  column_finish8_kernel<K>
      <<<static_cast<unsigned>((s.c + 31) / 32), dim3(32, kColumnWarps8), 0, stream>>>(s, partial, finish);
  check_launch(name);
}

}  // namespace neap::ops

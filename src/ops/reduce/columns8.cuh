// Columns summed over rows, eight columns a thread: for tensors whose width is a multiple of 8. Sums of a few hundred
// rows are in f32, theirs in double; the order depends on the shape alone.
#pragma once

#include "core/bytes.h"
#include "device/cuda/floats.cuh"
#include "device/cuda/launch.cuh"

namespace neap::ops {

inline constexpr int kColumnWarps8 = 8;

// Which rows and columns a thread of a block of 32 x 8 has: eight neighbouring columns, in every so many rows. Of
// narrow tensors a warp takes several rows at once.
struct ColumnParts8 {
  std::int64_t rows = 0, c = 0;
  std::int64_t parts = 1, part_rows = 0;
  int lanes = 32;  // threads that share a row

  ColumnParts8(std::int64_t rows_, std::int64_t c_) : rows(rows_), c(c_) {
    constexpr std::int64_t kBlocks = 792;  // six a multiprocessor of the largest cards
    constexpr std::int64_t kLeastRows = 32;
    while (lanes > 1 && lanes / 2 * kVector >= c) lanes /= 2;
    const std::int64_t wanted = kBlocks / strips() < 1 ? 1 : kBlocks / strips();
    part_rows = (rows + wanted - 1) / wanted;
    if (part_rows < kLeastRows) part_rows = kLeastRows;
    parts = rows == 0 ? 1 : (rows + part_rows - 1) / part_rows;
  }
  static bool fits(std::int64_t c) { return c > 0 && c % kVector == 0; }
  std::int64_t strips() const { return (c + lanes * kVector - 1) / (lanes * kVector); }
  std::int64_t bytes(int sums) const { return align_up(parts * c * sums * static_cast<std::int64_t>(sizeof(double))); }
  dim3 grid() const { return {static_cast<unsigned>(strips()), static_cast<unsigned>(parts)}; }

#ifdef __CUDACC__
  __device__ std::int64_t column() const {
    return (static_cast<std::int64_t>(blockIdx.x) * lanes + static_cast<int>(threadIdx.x) % lanes) * kVector;
  }
  __device__ std::int64_t first_row() const {
    return static_cast<std::int64_t>(blockIdx.y) * part_rows + threadIdx.y * (32 / lanes) + threadIdx.x / lanes;
  }
  __device__ std::int64_t end_row() const {
    const std::int64_t end = (static_cast<std::int64_t>(blockIdx.y) + 1) * part_rows;
    return end < rows ? end : rows;
  }
  __device__ int row_step() const { return kColumnWarps8 * (32 / lanes); }
#endif
};

using ColumnShared8 = float[kColumnWarps8][32][kVector + 1];

// The threads' K sums of a block become partial [K][parts][c]: a thread adds up one column of the strip, over the warps
// and the rows that each of them had.
template <int K>
__device__ void put_partials8(const ColumnParts8& s, const float (&sums)[K][kVector], ColumnShared8& shared,
                              double* partial) {
  const int number = static_cast<int>(threadIdx.y * 32 + threadIdx.x);
  const std::int64_t own = static_cast<std::int64_t>(blockIdx.x) * s.lanes * kVector + number;
  for (int k = 0; k < K; ++k) {
    for (int i = 0; i < kVector; ++i) shared[threadIdx.y][threadIdx.x][i] = sums[k][i];
    __syncthreads();
    if (number < s.lanes * kVector && own < s.c) {
      double total = 0;
      for (int w = 0; w < kColumnWarps8; ++w) {
        for (int lane = number / kVector; lane < 32; lane += s.lanes) total += shared[w][lane][number % kVector];
      }
      partial[(k * s.parts + blockIdx.y) * s.c + own] = total;
    }
    __syncthreads();
  }
}

// term.at(column) has what its 8 columns share; that, called with (row, sums), adds to K sums of each of them.
template <int K, class Term>
__global__ void __launch_bounds__(256, 2) column_partials8_kernel(ColumnParts8 s, Term term, double* partial) {
  __shared__ ColumnShared8 shared;
  const std::int64_t column = s.column();
  const std::int64_t end = s.end_row();
  const int step = s.row_step();
  float sums[K][kVector] = {};
  if (column < s.c) {
    const auto add = term.at(column);
#pragma unroll 4
    for (std::int64_t row = s.first_row(); row < end; row += step) add(row, sums);
  }
  put_partials8<K>(s, sums, shared, partial);
}

inline constexpr int kFinishRuns = 32;

// finish(column, sums) with the K totals of each column: 32 threads a column, each a run of parts.
template <int K, class Finish>
__global__ void __launch_bounds__(1024) column_finish8_kernel(ColumnParts8 s, const double* partial, Finish finish) {
  __shared__ double shared[K][kFinishRuns][32];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x;
  const std::int64_t run = (s.parts + kFinishRuns - 1) / kFinishRuns;
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
    for (int w = 0; w < kFinishRuns; ++w) sums[k] += shared[k][w][threadIdx.x];
  }
  finish(column, sums);
}

template <int K, class Finish>
void finish_columns8(const char* name, const ColumnParts8& s, const double* partial, cudaStream_t stream,
                     Finish finish) {
  column_finish8_kernel<K>
      <<<static_cast<unsigned>((s.c + 31) / 32), dim3(32, kFinishRuns), 0, stream>>>(s, partial, finish);
  check_launch(name);
}

template <int K, class Term, class Finish>
void sum_columns8(const char* name, const ColumnParts8& s, std::byte* workspace, cudaStream_t stream, Term term,
                  Finish finish) {
  auto* partial = reinterpret_cast<double*>(workspace);
  column_partials8_kernel<K><<<s.grid(), dim3(32, kColumnWarps8), 0, stream>>>(s, term, partial);
  check_launch(name);
  finish_columns8<K>(name, s, partial, stream, finish);
}

}  // namespace neap::ops

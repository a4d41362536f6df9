// Sums of the columns of a matrix [rows, c] on CUDA, in double and in an order that depends on the shape alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace neap::ops {

// The rows are summed in parts, and these in order.
struct ColumnParts {
  std::int64_t rows = 0, c = 0;
  std::int64_t parts = 1, part_rows = 0;

  ColumnParts(std::int64_t rows, std::int64_t c);
  // Of `sums` partial sums a column.
  std::int64_t bytes(int sums) const { return parts * c * sums * static_cast<std::int64_t>(sizeof(double)); }
};

// out[j] = sum of x[i][j] [+ start[j]]; the workspace has parts.bytes(1). `start` may be null, or `out` itself.
void column_sums_cuda(const ColumnParts& parts, const float* x, const float* start, float* out, std::byte* workspace,
                      cudaStream_t stream);

// The same of bf16, whose columns are a multiple of 8; the workspace has bf16_column_bytes().
std::int64_t bf16_column_bytes(std::int64_t rows, std::int64_t c);
void bf16_column_sums_cuda(std::int64_t rows, std::int64_t c, const void* x, bool adds, float* out,
                           std::byte* workspace, cudaStream_t stream);

// Partial results of a matrix, `step` elements from one to the next.
struct MatrixParts {
  std::int64_t parts = 1, step = 0, rows = 0, columns = 0;
};
// out = their sum in order [+ bias of each column] [+ what out holds]; bias may be null.
void add_parts_cuda(const MatrixParts& s, const float* partial, const float* bias, bool adds, float* out,
                    cudaStream_t stream);

// y[i][j] += bias[j]
void add_to_rows_cuda(float* y, const float* bias, std::int64_t rows, std::int64_t c, cudaStream_t stream);

}  // namespace neap::ops

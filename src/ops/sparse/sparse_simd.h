#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

inline constexpr std::int64_t kSparseRows = 8;  // of a tile

// Rows of x against one or two panels (ops/sparse/sparse.h).
struct SparseTile {
  const float* x;
  std::int64_t x_stride;
  std::int64_t groups, kept;
  const float* values;
  const std::uint64_t* index;
  std::int64_t panels;   // 1 or 2
  std::int64_t columns;  // of y that are wanted, up to 16 a panel
  std::int64_t rows;     // up to kSparseRows
  const float* bias;     // null: none
  float* y;
  std::int64_t y_stride;
};

inline constexpr std::int64_t kListedRows = 64;     // of a tile, which are columns there
inline constexpr std::int64_t kListedOutputs = 16;  // of a block

// One block of outputs for a tile of x, transposed: [in][width], width a multiple of 16 up to kListedRows.
struct ListedTile {
  const float* xt;
  std::int64_t width, rows;  // rows <= width are wanted
  const float* values;
  const std::uint16_t* index;
  const std::int32_t* start;  // of the block's first output
  std::int64_t outputs;       // up to kListedOutputs
  const float* bias;
  float* y;
  std::int64_t y_stride;
};

struct SparseTable {
  void (*tile)(const SparseTile& t);
  // xt[i][r] = x[r][i], zeros from `rows` to `width`.
  void (*transpose)(const float* x, std::int64_t rows, std::int64_t in, std::int64_t width, float* xt);
  void (*listed)(const ListedTile& t);
  // One row with one output's weights.
  float (*dot)(const float* x, const float* values, const std::uint16_t* index, std::int64_t count);
};
NEAP_ISA_TABLE(SparseTable, sparse_table)

}  // namespace neap

#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

// [images, rows, c]; an image's rows are summed in `parts` parts of part_rows (the last may be shorter).
struct Columns {
  std::int64_t images;
  std::int64_t rows;
  std::int64_t c;
  std::int64_t part_rows;
  std::int64_t parts;
};

// One number a column; `stride` leads from one image's to the next: c, or 0 when all images share them.
struct ColumnTable {
  const float* at;  // null: the number is left out (a factor of 1, a summand of 0)
  std::int64_t stride = 0;
};

// y = scale * rstd * (x - mean) + bias [+ residual], [relu]
struct ColumnApply {
  // f32; or all of these and y bf16
  const void* x;
  const void* residual;  // null: none
  ColumnTable mean, rstd, scale, bias;
  bool relu;
  void* y;
  std::uint8_t* mask;  // null, or one bit an element: y > 0
  bool is_narrow = false;
};

// g is dy where the ReLU let x through: everywhere; where mask says so; or where scale * rstd * (x - mean) + bias > 0.
enum class ColumnGate : std::uint8_t { kOpen, kMask, kSign };

struct ColumnGradient {
  // f32; or all of these, dx and g bf16
  const void* dy;
  const void* x;  // null: only k0 counts
  const std::uint8_t* mask;
  ColumnGate gate;
  ColumnTable mean;
  ColumnTable rstd, scale, bias;  // for kSign
  // dx = k0 * g - (k1 + k2 * (x - mean)); k1 and k2 null: dx = k0 * g
  ColumnTable k0, k1, k2;
  void* dx;  // null: not wanted
  void* g;   // null: not wanted
  bool is_narrow = false;
};

struct ColumnsTable {
  // Each part's mean and sum of squared deviations: [images * parts, 2, c].
  void (*moments)(const Columns& s, const float* x, double* partial);
  void (*moments_bf16)(const Columns& s, const std::uint16_t* x, double* partial);
  // Each part's sums of g and g * (x - mean): [images * parts, 2, c].
  void (*sums)(const Columns& s, const ColumnGradient& a, double* partial);
  // Joins an image's parts; the result takes the place of its first part.
  void (*merge_moments)(const Columns& s, double* partial);
  void (*merge_sums)(const Columns& s, double* partial);
  void (*apply)(const Columns& s, const ColumnApply& a);
  void (*gradient)(const Columns& s, const ColumnGradient& a);
};
NEAP_ISA_TABLE(ColumnsTable, columns_table)

}  // namespace neap

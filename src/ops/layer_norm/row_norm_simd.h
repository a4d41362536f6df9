// Normalisation of rows: layer norm, and RMS norm, which does not subtract the mean.
#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

// Rows are independent, but for the sums over them, which are taken in `parts` parts of part_rows.
struct RowNorm {
  std::int64_t rows;
  std::int64_t width;
  std::int64_t part_rows;
  std::int64_t parts;
  float epsilon;
};

// Null: not given, or not wanted. Without a mean it is RMS norm.
struct RowNormForward {
  const float* x;
  const float* scale;
  const float* bias;
  void* y;  // f32, or bf16
  bool is_narrow = false;
  float* mean;
  float* rstd;
};

struct RowNormBackward {
  const void* dy;  // f32, or bf16
  bool is_narrow = false;
  const float* x;
  const float* mean;
  const float* rstd;
  const float* scale;
  const float* sum = nullptr;  // is added to dx
  float* dx;
  float* dscale;
  float* dbias;
  float* partial;  // [parts, 2, width]
};

struct RowNormTable {
  void (*layer)(const RowNorm& s, const RowNormForward& a);
  void (*layer_grad)(const RowNorm& s, const RowNormBackward& a);
  void (*rms)(const RowNorm& s, const RowNormForward& a);
  void (*rms_grad)(const RowNorm& s, const RowNormBackward& a);
};
NEAP_ISA_TABLE(RowNormTable, row_norm_table)

}  // namespace neap

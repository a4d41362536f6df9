// Convolutions of single pixels (kernel 1, stride 1, no padding, one group) are products of matrices.
#include "ops/conv/conv.h"
#include "ops/matmul/product_cuda.h"

namespace neap::ops {
namespace {

bool is_single(const WindowAxis& a) { return a.kernel == 1 && a.stride == 1 && a.pad_begin == 0 && a.pad_end == 0; }

bool is_product(const ConvShape& s) {
  const bool is_plain = is_single(s.window.d) && is_single(s.window.h) && is_single(s.window.w) && s.groups == 1;
  return is_plain && s.n * s.d * s.h * s.w * s.c * s.o > 0;
}

std::int64_t rows_of(const ConvShape& s) { return s.n * s.d * s.h * s.w; }

constexpr const char* kReason = "not of single pixels";

const char* reason_against_weight(const ConvShape& s) {
  if (!is_product(s)) return kReason;
  return s.type == DType::kBF16 && s.o % 8 != 0 ? "bf16 needs a multiple of 8 channels" : nullptr;
}

// dw [o, c] = dy^T x
CudaProductShape weight_shape(const ConvShape& s) {
  const std::int64_t rows = rows_of(s);
  return {.m = s.o,
          .n = s.c,
          .k = rows,
          .a = dense_matrix(s.o, rows, true),
          .b = dense_matrix(rows, s.c, false),
          .in = s.type,
          .tf32 = s.tf32};
}

}  // namespace

// y [rows, o] = x [rows, c] w^T
Prepared conv_forward_product(const ConvShape& s, bool with_bias) {
  if (!is_product(s)) return Declined{kReason};
  return product_kernel({.m = rows_of(s),
                         .n = s.o,
                         .k = s.c,
                         .a = dense_matrix(rows_of(s), s.c, false),
                         .b = dense_matrix(s.c, s.o, true),
                         .bias = with_bias,
                         .in = s.type,
                         .out = s.type,
                         .tf32 = s.tf32});
}

Prepared conv_weight_product(const ConvShape& s) {
  if (const char* why = reason_against_weight(s)) return Declined{why};
  return weight_product_kernel(weight_shape(s), 1, s.o);
}

Prepared conv_add_weight_product(const ConvShape& s, bool with_sum) {
  if (const char* why = reason_against_weight(s)) return Declined{why};
  CudaProductShape shape = weight_shape(s);
  shape.adds = with_sum;
  return adding_product_kernel(shape, 1);
}

// dx [rows, c] = dy [rows, o] w
Prepared conv_data_product(const ConvShape& s) {
  if (!is_product(s)) return Declined{kReason};
  return product_kernel({.m = rows_of(s),
                         .n = s.c,
                         .k = s.o,
                         .a = dense_matrix(rows_of(s), s.o, false),
                         .b = dense_matrix(s.o, s.c, false),
                         .in = s.type,
                         .out = s.type,
                         .tf32 = s.tf32});
}

}  // namespace neap::ops

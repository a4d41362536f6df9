// Convolutions of single pixels (kernel 1, stride 1, no padding, one group) are products of matrices.
#include <algorithm>

#include "ops/conv/conv.h"
#include "ops/cuda_kernel.h"
#include "ops/matmul/product_cuda.h"
#include "ops/reduce/columns_cuda.h"

namespace neap::ops {
namespace {

bool is_single(const WindowAxis& a) { return a.kernel == 1 && a.stride == 1 && a.pad_begin == 0 && a.pad_end == 0; }

bool is_product(const ConvShape& s) {
  const bool is_plain = is_single(s.window.d) && is_single(s.window.h) && is_single(s.window.w) && s.groups == 1;
  return is_plain && s.n * s.d * s.h * s.w * s.c * s.o > 0;
}

std::int64_t rows_of(const ConvShape& s) { return s.n * s.d * s.h * s.w; }

class PointConv final : public Kernel {
 public:
  explicit PointConv(const CudaProductShape& shape) : product_(shape) {}
  std::int64_t workspace_bytes() const override { return product_.workspace_bytes(); }
  std::string numerics() const override { return product_.numerics(); }
  void launch(const Buffers& b, Stream& stream) override {
    product_.run(b.in<float>(0), b.in<float>(1), b.in<float>(2), b.out<float>(0), b.workspace, handle_of(stream));
  }

 private:
  CudaProduct product_;
};

class PointWeight final : public Kernel {
 public:
  PointWeight(const CudaProductShape& shape, const ColumnParts& columns) : product_(shape), columns_(columns) {}
  std::int64_t workspace_bytes() const override { return std::max(product_.workspace_bytes(), columns_.bytes(1)); }
  std::string numerics() const override { return product_.numerics(); }
  void launch(const Buffers& b, Stream& stream) override {
    product_.run(b.in<float>(1), b.in<float>(0), nullptr, b.out<float>(0), b.workspace, handle_of(stream));
    auto* bias = wanted_out<float>(b, 1);
    if (bias != nullptr) column_sums_cuda(columns_, b.in<float>(1), nullptr, bias, b.workspace, handle_of(stream));
  }

 private:
  CudaProduct product_;
  ColumnParts columns_;
};

constexpr const char* kReason = "not of single pixels";

}  // namespace

// y [rows, o] = x [rows, c] w^T
Prepared conv_forward_product(const ConvShape& s, bool with_bias) {
  if (!is_product(s)) return Declined{kReason};
  return std::make_unique<PointConv>(CudaProductShape{.m = rows_of(s),
                                                      .n = s.o,
                                                      .k = s.c,
                                                      .a = dense_matrix(rows_of(s), s.c, false),
                                                      .b = dense_matrix(s.c, s.o, true),
                                                      .bias = with_bias});
}

// dw [o, c] = dy^T x
Prepared conv_weight_product(const ConvShape& s) {
  if (!is_product(s)) return Declined{kReason};
  return std::make_unique<PointWeight>(CudaProductShape{.m = s.o,
                                                        .n = s.c,
                                                        .k = rows_of(s),
                                                        .a = dense_matrix(s.o, rows_of(s), true),
                                                        .b = dense_matrix(rows_of(s), s.c, false)},
                                       ColumnParts(rows_of(s), s.o));
}

// dx [rows, c] = dy [rows, o] w
Prepared conv_data_product(const ConvShape& s) {
  if (!is_product(s)) return Declined{kReason};
  return std::make_unique<PointConv>(CudaProductShape{.m = rows_of(s),
                                                      .n = s.c,
                                                      .k = s.o,
                                                      .a = dense_matrix(rows_of(s), s.o, false),
                                                      .b = dense_matrix(s.o, s.c, false)});
}

}  // namespace neap::ops

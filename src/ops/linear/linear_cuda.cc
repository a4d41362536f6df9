#include "core/bytes.h"
#include "ops/cuda_kernel.h"
#include "ops/linear/linear.h"
#include "ops/matmul/product_cuda.h"
#include "ops/reduce/columns_cuda.h"

namespace neap::ops {
namespace {

class CudaLinear final : public Kernel {
 public:
  explicit CudaLinear(const CudaProductShape& shape) : product_(shape) {}
  std::int64_t workspace_bytes() const override { return product_.workspace_bytes(); }
  std::string numerics() const override { return product_.numerics(); }
  void launch(const Buffers& b, Stream& stream) override {
    product_.run(b.in<float>(0), b.in<float>(1), b.in<float>(2), b.out<float>(0), b.workspace, handle_of(stream));
  }

 private:
  CudaProduct product_;
};

// [out,in] = dy^T x, or [in,out] = x^T dy; the bias has the sums of dy's columns.
class CudaLinearGrad final : public Kernel {
 public:
  CudaLinearGrad(const LinearShape& s, const CudaProductShape& shape)
      : transposed_(s.transposed), parts_(s.rows, s.out), product_(shape) {}
  std::int64_t workspace_bytes() const override { return std::max(product_.workspace_bytes(), parts_.bytes(1)); }
  std::string numerics() const override { return product_.numerics(); }
  void launch(const Buffers& b, Stream& stream) override {
    const auto* x = b.in<float>(0);
    const auto* dy = b.in<float>(1);
    if (b.out<float>(0) != nullptr) {
      product_.run(transposed_ ? x : dy, transposed_ ? dy : x, nullptr, b.out<float>(0), b.workspace,
                   handle_of(stream));
    }
    if (b.out<float>(1) != nullptr) {
      column_sums_cuda(parts_, dy, nullptr, b.out<float>(1), b.workspace, handle_of(stream));
    }
  }

 private:
  bool transposed_;
  ColumnParts parts_;
  CudaProduct product_;
};

bool is_empty(const LinearShape& s) { return s.rows == 0 || s.in == 0 || s.out == 0; }

}  // namespace

Prepared linear_cuda(const OpCall& call) {
  const LinearShape s = linear_shape(call);
  if (is_empty(s)) return Declined{"nothing to multiply"};
  return std::make_unique<CudaLinear>(CudaProductShape{.m = s.rows,
                                                       .n = s.out,
                                                       .k = s.in,
                                                       .a = dense_matrix(s.rows, s.in, false),
                                                       .b = dense_matrix(s.in, s.out, !s.transposed),
                                                       .bias = s.bias});
}

Prepared linear_grad_cuda(const OpCall& call) {
  const LinearShape s = linear_grad_shape(call);
  if (is_empty(s)) return Declined{"nothing to multiply"};
  const std::int64_t m = s.transposed ? s.in : s.out;
  const std::int64_t n = s.transposed ? s.out : s.in;
  return std::make_unique<CudaLinearGrad>(
      s, CudaProductShape{
             .m = m, .n = n, .k = s.rows, .a = dense_matrix(m, s.rows, true), .b = dense_matrix(s.rows, n, false)});
}

}  // namespace neap::ops

#include "ops/linear/linear.h"
#include "ops/linear/linear_simd.h"
#include "ops/matmul/product_onednn.h"

namespace neap::ops {
namespace {

constexpr const char* kNoFast = "the library has only a reference implementation for this product";
constexpr const char* kTypes = "no product of these types";

class OneDnnLinear final : public Kernel {
 public:
  explicit OneDnnLinear(ProductCall call) : call_(std::move(call)) {}
  std::int64_t workspace_bytes() const override { return call_.call.scratchpad_bytes(); }
  std::string numerics() const override { return call_.numerics; }
  void launch(const Buffers& b, Stream& /*stream*/) override {
    call_.run(b.in<void>(0), b.in<void>(1), b.in<void>(2), b.out<void>(0), b.workspace);
  }

 private:
  ProductCall call_;
};

class OneDnnLinearGrad final : public Kernel {
 public:
  OneDnnLinearGrad(ProductCall call, const LinearShape& shape, bool narrow)
      : call_(std::move(call)), shape_(shape), is_narrow_(narrow) {}
  std::int64_t workspace_bytes() const override { return call_.call.scratchpad_bytes(); }
  std::string numerics() const override { return call_.numerics; }
  void launch(const Buffers& b, Stream& /*stream*/) override {
    const auto* x = b.in<void>(0);
    const auto* dy = b.in<void>(1);
    if (b.out<float>(0) != nullptr) {
      call_.run(shape_.transposed ? x : dy, shape_.transposed ? dy : x, nullptr, b.out<float>(0), b.workspace);
    }
    auto* sums = b.out<float>(1);
    if (sums == nullptr) return;
    if (is_narrow_) {
      linear_table().column_sums_bf16(b.in<std::uint16_t>(1), sums, shape_.rows, shape_.out);
    } else {
      linear_table().column_sums(b.in<float>(1), sums, shape_.rows, shape_.out);
    }
  }

 private:
  ProductCall call_;
  LinearShape shape_;
  bool is_narrow_;  // dy is bf16
};

}  // namespace

Prepared linear_onednn(const OpCall& call) {
  const LinearShape s = linear_shape(call);
  const auto types = product_types(call);
  if (!types) return Declined{kTypes};
  auto product = onednn_product({.m = s.rows,
                                 .n = s.out,
                                 .k = s.in,
                                 .a = dense_matrix(s.rows, s.in, false),
                                 .b = dense_matrix(s.in, s.out, !s.transposed),
                                 .bias = s.bias,
                                 .types = *types});
  if (!product) return Declined{kNoFast};
  return std::make_unique<OneDnnLinear>(std::move(*product));
}

// [out,in] = dy^T x, or [in,out] = x^T dy.
Prepared linear_grad_onednn(const OpCall& call) {
  const LinearShape s = linear_grad_shape(call);
  const auto types = product_types(call);
  if (!types || types->result != DType::kF32) return Declined{kTypes};
  constexpr std::int64_t kSmall = 400'000;  // elements: the library then reaches 60 to 80 % of what our own does
  if (types->operands == DType::kBF16 && s.in * s.out < kSmall) return Declined{"our own is faster"};
  const std::int64_t m = s.transposed ? s.in : s.out;
  const std::int64_t n = s.transposed ? s.out : s.in;
  auto product = onednn_product({.m = m,
                                 .n = n,
                                 .k = s.rows,
                                 .a = dense_matrix(m, s.rows, true),
                                 .b = dense_matrix(s.rows, n, false),
                                 .types = *types});
  if (!product) return Declined{kNoFast};
  return std::make_unique<OneDnnLinearGrad>(std::move(*product), s, types->operands == DType::kBF16);
}

}  // namespace neap::ops

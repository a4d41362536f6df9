// What linear layers and convolutions of single pixels have in common.
#include <algorithm>

#include "ops/adding_cuda.h"
#include "ops/cuda_kernel.h"
#include "ops/matmul/product_cuda.h"
#include "ops/reduce/columns_cuda.h"

namespace neap::ops {
namespace {

class ProductKernel final : public Kernel {
 public:
  explicit ProductKernel(const CudaProductShape& shape) : product_(shape) {}
  std::int64_t workspace_bytes() const override { return product_.workspace_bytes(); }
  std::string numerics() const override { return product_.numerics(); }
  void launch(const Buffers& b, Stream& stream) override {
    product_.run(b.in<void>(0), b.in<void>(1), b.in<void>(2), b.outputs[0], b.workspace, handle_of(stream));
  }

 private:
  CudaProduct product_;
};

class WeightProductKernel final : public Kernel {
 public:
  WeightProductKernel(const CudaProductShape& shape, std::size_t left, const ColumnParts& parts)
      : left_(left), is_bf16_(shape.in == DType::kBF16), parts_(parts), product_(shape) {}
  std::int64_t workspace_bytes() const override {
    const std::int64_t sums = is_bf16_ ? bf16_column_bytes(parts_.rows, parts_.c) : parts_.bytes(1);
    return std::max(product_.workspace_bytes(), sums);
  }
  std::string numerics() const override { return product_.numerics(); }
  void launch(const Buffers& b, Stream& stream) override {
    auto* weight = b.out<float>(0);
    auto* bias = wanted_out<float>(b, 1);
    if (weight != nullptr) {
      product_.run(b.in<void>(left_), b.in<void>(1 - left_), nullptr, weight, b.workspace, handle_of(stream));
    }
    if (bias == nullptr) return;
    if (is_bf16_) {
      bf16_column_sums_cuda(parts_.rows, parts_.c, b.in<void>(1), false, bias, b.workspace, handle_of(stream));
    } else {
      column_sums_cuda(parts_, b.in<float>(1), nullptr, bias, b.workspace, handle_of(stream));
    }
  }

 private:
  std::size_t left_;
  bool is_bf16_;
  ColumnParts parts_;
  CudaProduct product_;
};

class AddingProductKernel final : public Kernel {
 public:
  AddingProductKernel(const CudaProductShape& shape, std::size_t left)
      : left_(left), adds_(shape.adds), elements_(shape.m * shape.n), product_(shape) {}
  std::int64_t workspace_bytes() const override { return product_.workspace_bytes(); }
  std::string numerics() const override { return product_.numerics(); }
  void launch(const Buffers& b, Stream& stream) override {
    if (adds_) start_from_cuda(b.in<float>(2), b.out<float>(0), elements_, handle_of(stream));
    product_.run(b.in<void>(left_), b.in<void>(1 - left_), nullptr, b.outputs[0], b.workspace, handle_of(stream));
  }

 private:
  std::size_t left_;
  bool adds_;
  std::int64_t elements_;
  CudaProduct product_;
};

}  // namespace

Prepared product_kernel(const CudaProductShape& shape) { return std::make_unique<ProductKernel>(shape); }

Prepared weight_product_kernel(const CudaProductShape& shape, std::size_t left, std::int64_t columns) {
  return std::make_unique<WeightProductKernel>(shape, left, ColumnParts(shape.k, columns));
}

Prepared adding_product_kernel(const CudaProductShape& shape, std::size_t left) {
  return std::make_unique<AddingProductKernel>(shape, left);
}

}  // namespace neap::ops

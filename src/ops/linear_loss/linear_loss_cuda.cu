#include <algorithm>

#include "core/bytes.h"
#include "ops/cuda_kernel.h"
#include "ops/linear_loss/linear_loss.h"
#include "ops/linear_loss/linear_loss_kernels.cuh"
#include "ops/matmul/product_cuda.h"
#include "ops/reduce/columns_cuda.h"

namespace neap::ops {
namespace {

// The three products of a tile.
struct Products {
  std::int64_t rows;
  CudaProduct logits, data, weight, more_weight;

  static CudaProductShape forward(const LinearLossShape& s, std::int64_t rows, DType type) {
    return {.m = rows,
            .n = s.classes.classes,
            .k = s.in,
            .a = dense_matrix(rows, s.in, false),
            .b = dense_matrix(s.in, s.classes.classes, true),
            .bias = s.bias,
            .in = type,
            .out = type,
            .tf32 = s.tf32};
  }
  static CudaProductShape backward(const LinearLossShape& s, std::int64_t rows, DType type) {
    return {.m = rows,
            .n = s.in,
            .k = s.classes.classes,
            .a = dense_matrix(rows, s.classes.classes, false),
            .b = dense_matrix(s.classes.classes, s.in, false),
            .in = type,
            .out = type,
            .tf32 = s.tf32};
  }
  static CudaProductShape of_weight(const LinearLossShape& s, std::int64_t rows, DType type, bool adds) {
    return {.m = s.classes.classes,
            .n = s.in,
            .k = rows,
            .a = dense_matrix(s.classes.classes, rows, true),
            .b = dense_matrix(rows, s.in, false),
            .adds = adds,
            .in = type,
            .tf32 = s.tf32};
  }
  Products(const LinearLossShape& s, std::int64_t tile, DType type)
      : rows(tile),
        logits(forward(s, tile, type)),
        data(backward(s, tile, type)),
        weight(of_weight(s, tile, type, false)),
        more_weight(of_weight(s, tile, type, true)) {}
  std::int64_t workspace_bytes() const {
    return std::max(
        {logits.workspace_bytes(), data.workspace_bytes(), weight.workspace_bytes(), more_weight.workspace_bytes()});
  }
};

class CudaLoss final : public Kernel {
 public:
  CudaLoss(const LinearLossShape& s, DType type) : s_(s), type_(type), tile_(s, s.tile, type) {
    if (s.classes.rows % s.tile != 0) rest_ = std::make_unique<Products>(s, s.classes.rows % s.tile, type);
    const std::int64_t number = sizeof(double);
    scale_at_ = align_up(s.classes.rows * number);
    logits_at_ = scale_at_ + kAlignment;
    product_at_ = logits_at_ + align_up(byte_size(type, s.tile * s.classes.classes), 256);
    const std::int64_t sums = type == DType::kBF16 ? bf16_column_bytes(s.tile, s.classes.classes)
                                                   : ColumnParts(s.tile, s.classes.classes).bytes(1);
    bytes_ = product_at_ + std::max({tile_.workspace_bytes(), rest_ ? rest_->workspace_bytes() : 0, sums});
  }
  std::int64_t workspace_bytes() const override { return bytes_; }
  std::string numerics() const override {
    return tile_.logits.numerics() + tile_.data.numerics() + tile_.weight.numerics();
  }

  void launch(const Buffers& b, Stream& stream) override {
    const cudaStream_t on = handle_of(stream);
    const ClassRows& c = s_.classes;
    auto* losses = reinterpret_cast<double*>(b.workspace);
    auto* scale = reinterpret_cast<float*>(b.workspace + scale_at_);
    loss_scale_kernel<<<1, kWideBlock, 0, on>>>(c, b.in<void>(3), s_.mean, scale);
    check_launch("linear_loss");
    for (std::int64_t first = 0; first < c.rows; first += s_.tile) {
      run_tile(b, first, first + s_.tile <= c.rows ? tile_ : *rest_, losses, scale, on);
    }
    if (b.outputs[0] == nullptr) return;
    loss_total_kernel<<<1, kWideBlock, 0, on>>>(c.rows, losses, scale, b.out<float>(0));
    check_launch("linear_loss");
  }

 private:
  void run_tile(const Buffers& b, std::int64_t first, const Products& p, double* losses, const float* scale,
                cudaStream_t stream) const {
    ClassRows c = s_.classes;
    c.rows = p.rows;
    std::byte* logits = b.workspace + logits_at_;
    std::byte* scratch = b.workspace + product_at_;
    const std::byte* x = b.inputs[0] + byte_size(type_, first * s_.in);
    const void* targets = b.inputs[3] + first * (c.wide ? 8 : 4);
    const bool with_gradient = b.outputs[1] != nullptr || b.outputs[2] != nullptr || b.outputs[3] != nullptr;
    p.logits.run(x, b.inputs[1], b.in<void>(2), logits, scratch, stream);
    if (type_ == DType::kBF16) {
      run_loss_rows(c, reinterpret_cast<Bf16*>(logits), targets, scale, with_gradient, losses + first, stream);
    } else {
      run_loss_rows(c, reinterpret_cast<float*>(logits), targets, scale, with_gradient, losses + first, stream);
    }
    if (b.outputs[1] != nullptr) {
      p.data.run(logits, b.inputs[1], nullptr, b.outputs[1] + byte_size(type_, first * s_.in), scratch, stream);
    }
    if (b.outputs[2] != nullptr) {
      (first == 0 ? p.weight : p.more_weight).run(logits, x, nullptr, b.outputs[2], scratch, stream);
    }
    if (b.outputs[3] != nullptr) add_bias(b.out<float>(3), first > 0, logits, c, scratch, stream);
  }

  void add_bias(float* db, bool adds, const std::byte* d, const ClassRows& c, std::byte* scratch,
                cudaStream_t stream) const {
    if (type_ == DType::kBF16) return bf16_column_sums_cuda(c.rows, c.classes, d, adds, db, scratch, stream);
    column_sums_cuda(ColumnParts(c.rows, c.classes), reinterpret_cast<const float*>(d), adds ? db : nullptr, db,
                     scratch, stream);
  }

  LinearLossShape s_;
  DType type_;
  Products tile_;
  std::unique_ptr<Products> rest_;
  std::int64_t scale_at_, logits_at_, product_at_, bytes_;
};

}  // namespace

Prepared linear_loss_cuda(const OpCall& call) {
  const DType type = call.in(0).dtype;
  const bool is_one_type = call.in(1).dtype == type && (!call.has(2) || call.in(2).dtype == type) &&
                           call.outputs[1].dtype == type && call.outputs[2].dtype == DType::kF32;
  if (!is_one_type) return Declined{"a mixture of types"};
  const LinearLossShape s = linear_loss_shape(call, byte_size(type, 1));
  if (s.classes.rows == 0 || s.in == 0) return Declined{"nothing to multiply"};
  if (type == DType::kBF16 && s.classes.classes % 8 != 0) return Declined{"bf16 needs a multiple of 8 classes"};
  return std::make_unique<CudaLoss>(s, type);
}

}  // namespace neap::ops

// A convolution's gradient of its data, with a bias behind it.
#include "ops/conv_transpose/conv_transpose.h"
#include "ops/cuda_kernel.h"
#include "ops/reduce/columns_cuda.h"

namespace neap::ops {
namespace {

class TransposedConv final : public Kernel {
 public:
  TransposedConv(std::unique_ptr<Kernel> inner, std::int64_t rows, std::int64_t channels)
      : inner_(std::move(inner)), rows_(rows), channels_(channels) {}
  std::int64_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  std::string numerics() const override { return inner_->numerics(); }
  void launch(const Buffers& b, Stream& stream) override {
    inner_->launch({.inputs = b.inputs.first(2), .outputs = b.outputs, .workspace = b.workspace}, stream);
    const auto* bias = b.in<float>(2);
    if (bias != nullptr) add_to_rows_cuda(b.out<float>(0), bias, rows_, channels_, handle_of(stream));
  }

 private:
  std::unique_ptr<Kernel> inner_;
  std::int64_t rows_, channels_;
};

}  // namespace

Prepared conv_transpose_cuda(const ConvShape& s) {
  for (const auto& prepare : {conv_data_product, conv_data_cudnn, conv_data_cuda}) {
    Prepared made = prepare(s);
    if (auto* inner = std::get_if<std::unique_ptr<Kernel>>(&made)) {
      return std::make_unique<TransposedConv>(std::move(*inner), s.n * s.d * s.h * s.w, s.c);
    }
  }
  return Declined{"nothing to convolve"};
}

}  // namespace neap::ops

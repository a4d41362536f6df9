#include "ops/gemm_op/gemm_op.h"
#include "ops/matmul/product_onednn.h"

namespace neap::ops {
namespace {

class OneDnnGemm final : public Kernel {
 public:
  OneDnnGemm(const GemmCall& gemm, ProductCall call) : gemm_(gemm), call_(std::move(call)) {}
  std::int64_t workspace_bytes() const override { return call_.call.scratchpad_bytes(); }
  std::string numerics() const override { return call_.numerics; }
  void launch(const Buffers& b, Stream& /*stream*/) override {
    const bool is_bias = gemm_.is_bias();
    if (gemm_.has_c && !is_bias) spread_c(gemm_, b.in<float>(2), b.out<float>(0));
    call_.run(b.in<float>(0), b.in<float>(1), is_bias ? b.in<float>(2) : nullptr, b.out<float>(0), b.workspace);
  }

 private:
  GemmCall gemm_;
  ProductCall call_;
};

}  // namespace

Prepared gemm_onednn(const OpCall& call) {
  const GemmCall g = gemm_call(call);
  auto product = onednn_product({.m = g.m,
                                 .n = g.n,
                                 .k = g.k,
                                 .a = dense_matrix(g.m, g.k, g.trans_a),
                                 .b = dense_matrix(g.k, g.n, g.trans_b),
                                 .alpha = g.alpha,
                                 .bias = g.is_bias(),
                                 .accumulate = g.has_c && !g.is_bias()});
  if (!product) return Declined{"the library has only a reference implementation for this product"};
  return std::make_unique<OneDnnGemm>(g, std::move(*product));
}

}  // namespace neap::ops

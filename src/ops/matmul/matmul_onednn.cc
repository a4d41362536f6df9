#include <algorithm>

#include "ops/matmul/product_onednn.h"

namespace neap::ops {
namespace {

Product product_of(const MatmulPlan& plan, const BatchAxis& batch) {
  return {.m = plan.m,
          .n = plan.n,
          .k = plan.k,
          .a = dense_matrix(plan.m, plan.k, plan.trans_a),
          .b = dense_matrix(plan.k, plan.n, plan.trans_b),
          .batch = batch,
          .alpha = plan.alpha};
}

// The innermost axis of the batch is the primitive's, the others are a loop.
class OneDnnMatmul final : public Kernel {
 public:
  OneDnnMatmul(MatmulPlan plan, ProductCall call, std::int64_t inner)
      : plan_(std::move(plan)), call_(std::move(call)), inner_(inner) {}

  std::int64_t workspace_bytes() const override { return call_.call.scratchpad_bytes(); }
  std::string numerics() const override { return call_.numerics; }
  void launch(const Buffers& b, Stream& /*stream*/) override {
    const std::int64_t batches = plan_.batches();
    for (std::int64_t t = 0; t < batches; t += inner_) {
      call_.run(b.in<float>(0) + plan_.a_offset(t), b.in<float>(1) + plan_.b_offset(t), nullptr,
                b.out<float>(0) + t * plan_.m * plan_.n, b.workspace);
    }
  }

 private:
  MatmulPlan plan_;
  ProductCall call_;
  std::int64_t inner_;
};

}  // namespace

Prepared matmul_onednn(const OpCall& call) {
  MatmulPlan plan = matmul_plan(call);
  const BatchAxis inner = plan.batch.empty() ? BatchAxis{1, 0, 0} : plan.batch.back();
  if (auto all = onednn_product(product_of(plan, inner))) {
    return std::make_unique<OneDnnMatmul>(std::move(plan), std::move(*all), inner.size);
  }
  return Declined{"the library has only a reference implementation for this product"};
}

}  // namespace neap::ops

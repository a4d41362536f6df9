#include <algorithm>

#include "ops/matmul/product_onednn.h"

namespace neap::ops {
namespace {

Product product_of(const MatmulPlan& plan, const BatchAxis& batch, const ProductTypes& types) {
  return {.m = plan.m,
          .n = plan.n,
          .k = plan.k,
          .a = dense_matrix(plan.m, plan.k, plan.trans_a),
          .b = dense_matrix(plan.k, plan.n, plan.trans_b),
          .batch = batch,
          .alpha = plan.alpha,
          .types = types};
}

// The innermost axis of the batch is the primitive's, the others are a loop.
class OneDnnMatmul final : public Kernel {
 public:
  OneDnnMatmul(MatmulPlan plan, ProductCall call, std::int64_t inner, const ProductTypes& types)
      : plan_(std::move(plan)), call_(std::move(call)), inner_(inner), types_(types) {}

  std::int64_t workspace_bytes() const override { return call_.call.scratchpad_bytes(); }
  std::string numerics() const override { return call_.numerics; }
  void launch(const Buffers& b, Stream& /*stream*/) override {
    const std::int64_t batches = plan_.batches();
    for (std::int64_t t = 0; t < batches; t += inner_) {
      call_.run(b.inputs[0] + bytes(types_.operands, plan_.a_offset(t)),
                b.inputs[1] + bytes(types_.operands, plan_.b_offset(t)), nullptr,
                b.outputs[0] + bytes(types_.result, t * plan_.m * plan_.n), b.workspace);
    }
  }

 private:
  static std::int64_t bytes(DType type, std::int64_t elements) {
    return type == DType::kBF16 ? 2 * elements : 4 * elements;
  }

  MatmulPlan plan_;
  ProductCall call_;
  std::int64_t inner_;
  ProductTypes types_;
};

}  // namespace

Prepared matmul_onednn(const OpCall& call) {
  const auto types = product_types(call);
  if (!types) return Declined{"no product of these types"};
  MatmulPlan plan = matmul_plan(call);
  const BatchAxis inner = plan.batch.empty() ? BatchAxis{1, 0, 0} : plan.batch.back();
  if (auto all = onednn_product(product_of(plan, inner, *types))) {
    return std::make_unique<OneDnnMatmul>(std::move(plan), std::move(*all), inner.size, *types);
  }
  return Declined{"the library has only a reference implementation for this product"};
}

}  // namespace neap::ops

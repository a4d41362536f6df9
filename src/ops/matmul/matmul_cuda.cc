#include "core/bytes.h"
#include "ops/cuda_kernel.h"
#include "ops/matmul/product_cuda.h"
#include "ops/product_math.h"

namespace neap::ops {
namespace {

// Products that differ in one step from the next are one call; what broadcasts otherwise is a call each.
class CudaMatmul final : public Kernel {
 public:
  CudaMatmul(const MatmulPlan& plan, std::int64_t inner, const CudaProductShape& shape)
      : plan_(plan), inner_(inner), bytes_(byte_size(shape.in, 1)), product_(shape) {}
  std::int64_t workspace_bytes() const override { return product_.workspace_bytes(); }
  std::string numerics() const override { return product_.numerics(); }
  void launch(const Buffers& b, Stream& stream) override {
    for (std::int64_t t = 0; t < plan_.batches(); t += inner_) {
      product_.run(b.inputs[0] + plan_.a_offset(t) * bytes_, b.inputs[1] + plan_.b_offset(t) * bytes_, nullptr,
                   b.outputs[0] + t * plan_.m * plan_.n * bytes_, b.workspace, handle_of(stream));
    }
  }

 private:
  MatmulPlan plan_;
  std::int64_t inner_;
  std::int64_t bytes_;  // of an element
  CudaProduct product_;
};

}  // namespace

Prepared matmul_cuda(const OpCall& call) {
  const DType type = call.in(0).dtype;
  const bool is_one_type = call.in(1).dtype == type && call.outputs[0].dtype == type;
  if ((type != DType::kF32 && type != DType::kBF16) || !is_one_type) return Declined{"all f32 or all bf16 only"};
  const MatmulPlan p = matmul_plan(call);
  const std::int64_t bytes = call.outputs[0].bytes();
  if (bytes == 0 || p.k == 0) {
    return cuda_kernel([bytes](const Buffers& b, cudaStream_t stream) {
      NEAP_CHECK_CUDA(cudaMemsetAsync(b.outputs[0], 0, static_cast<std::size_t>(bytes), stream));
    });
  }
  const BatchAxis inner = p.batch.empty() ? BatchAxis{1, 0, 0} : p.batch.back();
  return std::make_unique<CudaMatmul>(p, inner.size,
                                      CudaProductShape{.m = p.m,
                                                       .n = p.n,
                                                       .k = p.k,
                                                       .a = dense_matrix(p.m, p.k, p.trans_a),
                                                       .b = dense_matrix(p.k, p.n, p.trans_b),
                                                       .alpha = p.alpha,
                                                       .batches = inner.size,
                                                       .a_step = inner.a_step,
                                                       .b_step = inner.b_step,
                                                       .in = type,
                                                       .out = type,
                                                       .tf32 = is_tf32(call.attrs)});
}

}  // namespace neap::ops

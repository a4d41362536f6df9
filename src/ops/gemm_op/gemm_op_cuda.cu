#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/gemm_op/gemm_op.h"
#include "ops/matmul/product_cuda.h"
#include "ops/product_math.h"

namespace neap::ops {
namespace {

// c, spread over the result, is what the product is added to.
class GemmKernel final : public Kernel {
 public:
  GemmKernel(const GemmCall& g, const CudaProductShape& shape) : g_(g), product_(shape) {}
  std::int64_t workspace_bytes() const override { return product_.workspace_bytes(); }
  std::string numerics() const override { return product_.numerics(); }
  void launch(const Buffers& b, Stream& stream) override {
    if (g_.has_c) spread(g_, b.in<float>(2), b.out<float>(0), handle_of(stream));
    product_.run(b.in<void>(0), b.in<void>(1), nullptr, b.outputs[0], b.workspace, handle_of(stream));
  }

  static void spread(const GemmCall& g, const float* c, float* out, cudaStream_t stream) {
    each("gemm", g.m * g.n, stream,
         [=] __device__(std::int64_t i) { out[i] = g.beta * c[i / g.n * g.c_row + i % g.n * g.c_column]; });
  }

 private:
  GemmCall g_;
  CudaProduct product_;
};

}  // namespace

Prepared gemm_cuda(const OpCall& call) {
  const GemmCall g = gemm_call(call);
  if (g.m == 0 || g.n == 0 || g.k == 0) return Declined{"nothing to multiply"};
  return std::make_unique<GemmKernel>(g, CudaProductShape{.m = g.m,
                                                          .n = g.n,
                                                          .k = g.k,
                                                          .a = dense_matrix(g.m, g.k, g.trans_a),
                                                          .b = dense_matrix(g.k, g.n, g.trans_b),
                                                          .adds = g.has_c,
                                                          .alpha = g.alpha,
                                                          .tf32 = is_tf32(call.attrs)});
}

}  // namespace neap::ops

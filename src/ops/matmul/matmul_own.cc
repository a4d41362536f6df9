// The product by our own gemm: needs no library, and its bits depend on the operands alone.
#include <omp.h>

#include <algorithm>

#include "core/bytes.h"
#include "device/cpu/gemm.h"
#include "ops/matmul/matmul.h"

namespace neap::ops {
namespace {

class OwnMatmul final : public Kernel {
 public:
  explicit OwnMatmul(MatmulPlan plan)
      : plan_(std::move(plan)),
        threads_(omp_get_max_threads()),
        shape_{.m = plan_.m, .n = plan_.n, .k = plan_.k},
        one_thread_(align_up(static_cast<std::int64_t>(gemm_scratch_bytes(shape_)))) {}

  std::int64_t workspace_bytes() const override {
    return std::max(one_thread_ * threads_, static_cast<std::int64_t>(gemm_scratch_bytes(shape_, threads_)));
  }

  void launch(const Buffers& b, Stream& /*stream*/) override {
    const std::int64_t batches = plan_.batches();
    if (batches < threads_) {
      for (std::int64_t t = 0; t < batches; ++t) {
        gemm_parallel(shape_, a(b, t), this->b(b, t), c(b, t), reinterpret_cast<float*>(b.workspace), plan_.alpha);
      }
      return;
    }
#pragma omp parallel for schedule(static) num_threads(threads_)
    for (std::int64_t t = 0; t < batches; ++t) {
      auto* scratch = reinterpret_cast<float*>(b.workspace + omp_get_thread_num() * one_thread_);
      gemm(shape_, a(b, t), this->b(b, t), c(b, t), scratch, plan_.alpha);
    }
  }

 private:
  GemmOperand a(const Buffers& b, std::int64_t t) const {
    return {b.in<float>(0) + plan_.a_offset(t), plan_.trans_a ? plan_.m : plan_.k, plan_.trans_a};
  }
  GemmOperand b(const Buffers& b, std::int64_t t) const {
    return {b.in<float>(1) + plan_.b_offset(t), plan_.trans_b ? plan_.k : plan_.n, plan_.trans_b};
  }
  GemmOutput c(const Buffers& b, std::int64_t t) const {
    return {b.out<float>(0) + t * plan_.m * plan_.n, plan_.n, false};
  }

  MatmulPlan plan_;
  int threads_;
  GemmShape shape_;
  std::int64_t one_thread_;
};

}  // namespace

Prepared matmul_simd(const OpCall& call) { return std::make_unique<OwnMatmul>(matmul_plan(call)); }

}  // namespace neap::ops

// C = alpha * op(A) op(B), over batches that broadcast as in numpy.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/kernel.h"

namespace neap::ops {

// A matrix by its strides in elements; one of them is 1.
struct Matrix {
  std::int64_t row = 0;
  std::int64_t column = 1;
};

// rows x columns, stored row-major or (transposed) column-major, dense.
inline Matrix dense_matrix(std::int64_t rows, std::int64_t columns, bool transposed) {
  return transposed ? Matrix{1, rows} : Matrix{columns, 1};
}

// Steps in elements from one product to the next; 0 where that side is broadcast. C is dense.
struct BatchAxis {
  std::int64_t size;
  std::int64_t a_step;
  std::int64_t b_step;
};

struct MatmulPlan {
  std::int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  float alpha = 1;
  std::vector<BatchAxis> batch;  // outermost first; axes that lie behind each other are joined

  std::int64_t batches() const;
  // Where product `index` reads, in elements.
  std::int64_t a_offset(std::int64_t index) const;
  std::int64_t b_offset(std::int64_t index) const;
};

// Of a call with static shapes.
MatmulPlan matmul_plan(const OpCall& call);

[[gnu::weak]] Prepared matmul_onednn(const OpCall& call);
[[gnu::weak]] Prepared matmul_cuda(const OpCall& call);
Prepared matmul_simd(const OpCall& call);
Prepared matmul_ref(const OpCall& call);

}  // namespace neap::ops

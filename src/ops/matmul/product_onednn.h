// One matrix product, or a batch of them, as a oneDNN primitive.
#pragma once

#include <optional>
#include <string>

#include "device/cpu/onednn.h"
#include "ops/matmul/matmul.h"

namespace neap::ops {

// C = alpha * A B [+ bias] [+ C]; C is dense, bias is a row.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a, b;
  BatchAxis batch = {1, 0, 0};
  float alpha = 1;
  bool bias = false;
  bool accumulate = false;
};

struct ProductCall {
  OneDnnCall call;
  std::string numerics;

  // No bias: null.
  void run(const float* a, const float* b, const float* bias, float* c, std::byte* scratchpad);
};

// Nothing where the library has only its reference implementation, or where there is nothing to compute.
std::optional<ProductCall> onednn_product(const Product& p);

}  // namespace neap::ops

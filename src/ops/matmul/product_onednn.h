// One matrix product, or a batch of them, as a oneDNN primitive.
#pragma once

#include <optional>
#include <string>

#include "device/cpu/onednn.h"
#include "ops/matmul/matmul.h"

namespace neap::ops {

// All f32; or operands of bf16, summed in f32, with a result (and a bias) of either type.
struct ProductTypes {
  DType operands = DType::kF32;
  DType bias = DType::kF32;
  DType result = DType::kF32;
};
// Of a call with operands as inputs 0 and 1, and perhaps a bias as input 2. Nothing for other mixtures, and for bf16
// where this CPU has no instructions for its products.
std::optional<ProductTypes> product_types(const OpCall& call);

// C = alpha * A B [+ bias] [+ C]; C is dense, bias is a row.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a, b;
  BatchAxis batch = {1, 0, 0};
  float alpha = 1;
  bool bias = false;
  bool accumulate = false;
  ProductTypes types = {};
};

struct ProductCall {
  OneDnnCall call;
  std::string numerics;

  // No bias: null.
  void run(const void* a, const void* b, const void* bias, void* c, std::byte* scratchpad);
};

// Nothing where the library has only its reference implementation, or where there is nothing to compute.
std::optional<ProductCall> onednn_product(const Product& p);

}  // namespace neap::ops

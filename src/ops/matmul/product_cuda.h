// Products by cuBLASLt: C = alpha op(A) op(B) [+ bias] [+ C], of f32, of f32 by TF32, or of bf16 with sums in f32. The
// algorithm is a function of shape, card and library: the heuristic's first, or where another one of its choices was
// found to be faster (product_choices.h), that one. A small C with long sums would keep only a few multiprocessors
// busy: its sums are cut into parts by us, which are one batch of products, and then added up in order.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <string>

#include "ops/matmul/matmul.h"

namespace neap::ops {

// What the library does with a product on its way out.
enum class Epilogue : std::uint8_t {
  kNone,
  kGelu,      // side = the product with its bias, C = gelu of that, by tanh
  kGeluGrad,  // C = the product times gelu's slope where `side` is what went into gelu
};

struct CudaProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a, b;  // C is dense and row-major
  bool bias = false;
  bool adds = false;  // to what C holds
  Epilogue epilogue = Epilogue::kNone;
  float alpha = 1;
  std::int64_t batches = 1, a_step = 0, b_step = 0;  // in elements
  std::int64_t c_step = 0;                           // 0: behind each other
  DType in = DType::kF32;                            // of A and B: f32 or bf16
  DType out = DType::kF32;                           // of C and the bias; bf16 only with A and B of bf16
  bool tf32 = false;                                 // A and B of f32 are rounded to TF32
  int choice = -1;                                   // which of the heuristic's; negative: the best known
};

class CudaProduct {
 public:
  // DeviceError when the library has no algorithm.
  explicit CudaProduct(const CudaProductShape& shape);
  CudaProduct(CudaProduct&&) noexcept;
  CudaProduct& operator=(CudaProduct&&) noexcept;
  ~CudaProduct();

  std::int64_t workspace_bytes() const;
  std::string numerics() const;
  // `side` is what the epilogue reads or writes, a matrix like C.
  void run(const void* a, const void* b, const void* bias, void* c, std::byte* workspace, cudaStream_t stream,
           void* side = nullptr) const;

 private:
  struct Call;
  std::int64_t part_step() const;
  std::int64_t call_bytes() const;

  CudaProductShape shape_;
  std::int64_t parts_;
  std::unique_ptr<Call> call_;
};

// Output 0 = input 0 times input 1 [+ input 2].
Prepared product_kernel(const CudaProductShape& shape);

// The gradient of a weight and of its bias from x (input 0) and dy (input 1): output 0 = input `left` times the other
// one, output 1 = the sums of dy's columns, of which it has `columns`. Either may not be wanted.
Prepared weight_product_kernel(const CudaProductShape& shape, std::size_t left, std::int64_t columns);

// The same without a bias, added to input 2 where `shape` says so; output 0 may lie in its place.
Prepared adding_product_kernel(const CudaProductShape& shape, std::size_t left);

}  // namespace neap::ops

// Single-precision matrix products: C = [C +] alpha * A * B, all row-major.
//
// An element of C is one chain: it starts from C (or 0) and takes fma(alpha * a, b, sum) for k = 0, 1, 2, ... in order
// (multiply, then add, where the CPU has no FMA). So its bits depend on its own row of A and column of B alone: not on
// m, n, the number of threads, the columns or rows computed beside it, or B being packed. And a product over k in
// pieces, each accumulated on the one before, is the same to the bit as the whole: a weight gradient can be summed
// chunk by chunk.
// The price is that rounding errors grow as the square root of k: about 2e-6 of a sum of 2000 random products.
//
// With `bf16` operands are rounded to bf16, unless they are, and taken two at a time along k (AVX512_BF16; only where
// has_bf16_products()): a step of the chain then adds a pair of products. What is said of bits holds for pieces of an
// even k. There is no alpha.
//
// Nothing here allocates. Scratch and packed matrices are best aligned to 64 bytes; any alignment of float is right.
#pragma once

#include <cstddef>
#include <cstdint>

namespace neap {

struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool bf16 = false;
};

// Element (row, column) is data[row * ld + column], or data[column * ld + row] if transposed. A negative ld walks
// backwards from data: with rows along k, that sums the chain from the last row of memory to the first.
struct GemmOperand {
  const float* data = nullptr;
  std::int64_t ld = 0;
  bool transposed = false;
  bool is_bf16 = false;  // data, and so ld, is of bf16
};

// Where element `at` of an operand lies.
[[gnu::always_inline]] inline const float* gemm_element(const GemmOperand& x, std::int64_t at) {
  return x.is_bf16 ? reinterpret_cast<const float*>(reinterpret_cast<const std::uint16_t*>(x.data) + at) : x.data + at;
}

struct GemmOutput {
  float* data = nullptr;
  std::int64_t ld = 0;
  bool accumulate = false;  // start from what is there
};

// A packed B is a sequence of panels of columns. From any column that is a multiple of kGemmPanel on it is itself a
// packed B: packed_columns(packed, k, first), for threads that share out the columns.
inline constexpr std::int64_t kGemmPanel = 32;
std::size_t packed_b_bytes(std::int64_t k, std::int64_t n);
const float* packed_columns(const float* packed, std::int64_t k, std::int64_t first, bool bf16 = false);
// One of bf16 is packed for products of bf16.
void pack_b(const GemmOperand& b, std::int64_t k, std::int64_t n, float* packed);
void pack_b_parallel(const GemmOperand& b, std::int64_t k, std::int64_t n, float* packed);

// On the calling thread; for use inside a parallel region, on a range of rows or columns.
void gemm_packed(const GemmShape& shape, const GemmOperand& a, const float* packed, const GemmOutput& c,
                 float alpha = 1);
// On all OpenMP threads.
void gemm_packed_parallel(const GemmShape& shape, const GemmOperand& a, const float* packed, const GemmOutput& c,
                          float alpha = 1);

// With B as it is: it is packed piece by piece into the scratch, or read where it lies if that is faster.
std::size_t gemm_scratch_bytes(const GemmShape& shape, int threads = 1);
void gemm(const GemmShape& shape, const GemmOperand& a, const GemmOperand& b, const GemmOutput& c, float* scratch,
          float alpha = 1);
// Takes scratch for omp_get_max_threads() threads.
void gemm_parallel(const GemmShape& shape, const GemmOperand& a, const GemmOperand& b, const GemmOutput& c,
                   float* scratch, float alpha = 1);

}  // namespace neap

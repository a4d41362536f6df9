// Tiles of 64 rows of bf16, 64 numbers a row, in shared memory, and the tensor cores' products of 16 x 8 x 16.
#pragma once

#include <cstdint>

#include "device/cuda/floats.cuh"

namespace neap::ops {

inline constexpr int kDepth = 64;
inline constexpr int kTileRows = 64;
inline constexpr int kTileBytes = kTileRows * kDepth * 2;

// Where the 16 bytes `chunk` of a row lie: so that 8 rows of one column of chunks touch all banks.
__device__ inline std::uint32_t place(int row, int chunk) {
  return static_cast<std::uint32_t>(row * 128 + ((chunk ^ (row & 7)) << 4));
}

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// By kThreads threads. `from` is the tile's first row; rows at or behind `rows` become 0.
template <int kThreads>
__device__ void load_tile(std::uint32_t tile, const Bf16* from, int rows, int step) {
  const int chunk = static_cast<int>(threadIdx.x) % 8;
#pragma unroll
  for (int i = 0; i < kTileRows * 8 / kThreads; ++i) {
    const int row = static_cast<int>(threadIdx.x) / 8 + i * (kThreads / 8);
    const bool is_there = row < rows;
    const Bf16* at = from + (is_there ? row : 0) * step + chunk * 8;
    const int bytes = is_there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(tile + place(row, chunk)), "l"(at),
                 "r"(bytes));
  }
}
// One float; 0 when it is not there.
__device__ inline void load_float(std::uint32_t to, const float* from, bool is_there) {
  const int bytes = is_there ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(to), "l"(from), "r"(bytes));
}
__device__ inline void commit_loads() { asm volatile("cp.async.commit_group;\n" ::); }
template <int kLeft>
__device__ inline void wait_for_loads() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kLeft));
}

struct Four {
  std::uint32_t r[4];
};

__device__ inline Four load_matrices(std::uint32_t address) {
  Four f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
               : "r"(address));
  return f;
}
__device__ inline Four load_transposed(std::uint32_t address) {
  Four f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
               : "r"(address));
  return f;
}

// Of a product with the tile's rows as columns: rows `row`.. (16 of them), numbers 16 k .. 16 k + 15. Registers 0 and 1
// belong to the first 8 rows, 2 and 3 to the others.
__device__ inline Four rows_as_columns(std::uint32_t tile, int row, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return load_matrices(tile + place(row + (lane >> 4) * 8 + (lane & 7), 2 * k + (lane >> 3 & 1)));
}
// Of a product that sums over the tile's rows: 16 of them from `row` on, columns 16 n .. 16 n + 15.
__device__ inline Four rows_as_terms(std::uint32_t tile, int row, int n) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return load_transposed(tile + place(row + (lane >> 3 & 1) * 8 + (lane & 7), 2 * n + (lane >> 4)));
}

// c += a b: a is 16 x 16, b 16 x 8.
__device__ inline void multiply(float (&c)[4], const Four& a, std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
}

// 16 rows of global memory from `first` on as left operands, all 64 numbers of each; rows that are not there are 0.
__device__ inline void load_rows(Four (&out)[4], const Bf16* from, std::int64_t first, std::int64_t rows,
                                 std::int64_t step) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = first + lane / 4 + 8 * half;
    const Bf16* at = from + row * step + lane % 4 * 2;
    for (int k = 0; k < 4; ++k) {
      const bool is_there = row < rows;
      out[k].r[half] = is_there ? *reinterpret_cast<const std::uint32_t*>(at + 16 * k) : 0;
      out[k].r[half + 2] = is_there ? *reinterpret_cast<const std::uint32_t*>(at + 16 * k + 8) : 0;
    }
  }
}

// Results of 16 x 16 as the left operand of the next product.
__device__ inline Four as_operand(const float (&left)[4], const float (&right)[4]) {
  return {{pack2(left[0], left[1]), pack2(left[2], left[3]), pack2(right[0], right[1]), pack2(right[2], right[3])}};
}

__device__ inline float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

// Rows of results, times `factor[half]`, as bf16.
__device__ inline void store_rows(const float (&sums)[8][4], const float (&factor)[2], Bf16* to, std::int64_t first,
                                  std::int64_t rows, std::int64_t step) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = first + lane / 4 + 8 * half;
    if (row >= rows) continue;
    for (int n = 0; n < 8; ++n) {
      *reinterpret_cast<std::uint32_t*>(to + row * step + 8 * n + lane % 4 * 2) =
          pack2(sums[n][2 * half] * factor[half], sums[n][2 * half + 1] * factor[half]);
    }
  }
}

}  // namespace neap::ops

// Products of a warpgroup (128 threads) on Hopper's tensor cores: 64 x 64 results over tiles of attention_mma.cuh,
// whose places are just what these instructions call a swizzle of 128 bytes; tiles begin at multiples of 1024 bytes. A
// thread has of the results what it would have of 16 x 8 ones: rows lane / 4 and 8 below of its warp's 16, two columns
// in 8.
#pragma once

#include "ops/attention/attention_mma.cuh"

namespace neap::ops {

// Of a tile from `address` on: 8 rows are 1024 bytes.
__device__ inline std::uint64_t tile_at(std::uint32_t address) {
  return static_cast<std::uint64_t>((address & 0x3FFFFU) >> 4) | (1ULL << 16) | (64ULL << 32) | (1ULL << 62);
}
// 16 numbers of every row; 16 rows.
__device__ inline std::uint64_t columns_of(std::uint32_t tile, int k) { return tile_at(tile + 32U * k); }
__device__ inline std::uint64_t rows_of(std::uint32_t tile, int k) { return tile_at(tile + 2048U * k); }

using Results = float[8][4];

// The compiler keeps these registers where they are until here.
__device__ inline void hold(Results& d) {
#pragma unroll
  for (int n = 0; n < 8; ++n) asm volatile("" : "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])::"memory");
}
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ inline void wait_for_products() {
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n" ::: "memory");
}
// What this thread's copies have written to shared memory is there for the products, once all threads have met.
__device__ inline void show_to_products() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }

#define NEAP_RESULTS(d)                                                                                        \
  "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]),     \
      "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), \
      "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), \
      "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), \
      "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3])
#define NEAP_RESULT_NAMES                                                                                   \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27," \
  "%28,%29,%30,%31}"

// d [+]= 16 numbers of a's rows times those of b's rows.
__device__ inline void multiply_tiles(Results& d, std::uint64_t a, std::uint64_t b, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " NEAP_RESULT_NAMES ", %32, %33, p, 1, 1, 0, 0;\n}\n"
      : NEAP_RESULTS(d)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}
// d += a, 16 numbers a row in registers, times 16 rows of b.
__device__ inline void multiply_rows(Results& d, const Four& a, std::uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " NEAP_RESULT_NAMES
               ", {%32,%33,%34,%35}, %36, 1, 1, 1, 1;\n"
               : NEAP_RESULTS(d)
               : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "l"(b));
}
#undef NEAP_RESULTS
#undef NEAP_RESULT_NAMES

// d = the rows of one tile times those of another.
__device__ inline void multiply_whole(Results& d, std::uint32_t a, std::uint32_t b) {
#pragma unroll
  for (int k = 0; k < 4; ++k) multiply_tiles(d, columns_of(a, k), columns_of(b, k), k > 0);
}
// d += p, as left operands, times the tile.
__device__ inline void add_whole(Results& d, const Four (&p)[4], std::uint32_t b) {
#pragma unroll
  for (int k = 0; k < 4; ++k) multiply_rows(d, p[k], rows_of(b, k));
}

__device__ inline void as_operands(Four (&out)[4], const Results& d) {
#pragma unroll
  for (int k = 0; k < 4; ++k) out[k] = as_operand(d[2 * k], d[2 * k + 1]);
}

}  // namespace neap::ops

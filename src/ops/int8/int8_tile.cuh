// Tiles of int8 products on the tensor cores: 64 outputs of a convolution (rows) by the 64 channels of a panel, four
// warps of 32 by 32.
#pragma once

#include "device/cuda/launch.cuh"
#include "ops/int8/int8.h"

namespace neap::ops {

// Activations as bytes: a word has four channels of a pixel; one scale and one zero an image.
struct Int8Bytes {
  std::uint32_t* words;
  float* scales;
  std::int32_t* zeros;
};

struct Int8Product {
  ConvShape s;
  Int8Weight weight;
  std::int64_t rows;
  Int8Bytes x;
  const std::uint32_t* packed;
  const float* scale;
  const std::int32_t* sums;
  const float* bias;  // null: none
  float* y;
};

inline constexpr int kInt8Threads = 128;
inline constexpr int kInt8Rows = 64, kInt8Columns = 64;  // of a tile
inline constexpr int kInt8Words = 16;                    // of a sum that are in shared memory at one time
inline constexpr int kInt8Loads = kInt8Rows * kInt8Words / kInt8Threads;
// Strides at which the words that a warp reads at one time lie in different banks.
inline constexpr int kInt8RowStride = kInt8Words + 4, kInt8ColumnStride = kInt8Columns + 8;

// The window of a row: where it begins, and what stands for 0 beyond the image.
struct Int8Place {
  std::int64_t image;  // negative: there is no such row
  std::int64_t d, h, w;
  std::uint32_t padding;
};

struct Int8Shared {
  std::uint32_t a[kInt8Rows][kInt8RowStride];
  std::uint32_t b[kInt8Words][kInt8ColumnStride];
  Int8Place places[kInt8Rows];
};

// sum += a b for 16 rows, 8 columns and 32 bytes: u8 by s8.
__device__ inline void multiply_bytes(std::int32_t (&sum)[4], const std::uint32_t (&a)[4],
                                      const std::uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline Int8Place int8_place(const Int8Product& p, std::int64_t row) {
  if (row >= p.rows) return {.image = -1};
  const ConvShape& s = p.s;
  const std::int64_t plane = s.od * s.oh * s.ow;
  const std::int64_t image = row / plane;
  const std::int64_t at = row % plane;
  return {.image = image,
          .d = at / (s.oh * s.ow) * s.window.d.stride - s.window.d.pad_begin,
          .h = at / s.ow % s.oh * s.window.h.stride - s.window.h.pad_begin,
          .w = at % s.ow * s.window.w.stride - s.window.w.pad_begin,
          .padding = static_cast<std::uint32_t>(p.x.zeros[image]) * 0x01010101U};
}

// Where a word of a sum lies in each window.
struct Int8Term {
  bool is_there;
  std::int64_t d, h, w, quad;

  __device__ Int8Term(const Int8Product& p, std::int64_t word) : is_there(word < p.weight.taps * p.weight.quads()) {
    const Window& k = p.s.window;
    const std::int64_t tap = word / p.weight.quads();
    quad = word % p.weight.quads();
    d = tap / (k.h.kernel * k.w.kernel) * k.d.dilation;
    h = tap / k.w.kernel % k.h.kernel * k.h.dilation;
    w = tap % k.w.kernel * k.w.dilation;
  }
  __device__ std::uint32_t load(const Int8Product& p, const Int8Place& from) const {
    if (!is_there || from.image < 0) return 0;
    const ConvShape& s = p.s;
    const std::int64_t at_d = from.d + d, at_h = from.h + h, at_w = from.w + w;
    const bool is_in = at_d >= 0 && at_d < s.d && at_h >= 0 && at_h < s.h && at_w >= 0 && at_w < s.w;
    if (!is_in) return from.padding;
    return p.x.words[(((from.image * s.d + at_d) * s.h + at_h) * s.w + at_w) * p.weight.quads() + quad];
  }
};

// What a thread brings of the next words: first to registers, while the tensor cores still need the last ones.
struct Int8Loads {
  std::uint32_t a[kInt8Loads], b[kInt8Loads];

  static __device__ int a_word() { return static_cast<int>(threadIdx.x) % kInt8Words; }
  static __device__ int a_row(int i) {
    return static_cast<int>(threadIdx.x) / kInt8Words + i * (kInt8Threads / kInt8Words);
  }
  static __device__ int b_column() { return static_cast<int>(threadIdx.x) % kInt8Columns; }
  static __device__ int b_word(int i) {
    return static_cast<int>(threadIdx.x) / kInt8Columns + i * (kInt8Threads / kInt8Columns);
  }

  __device__ void read(const Int8Product& p, const Int8Shared& shared, std::int64_t panel, std::int64_t first) {
    const Int8Term term(p, first + a_word());
#pragma unroll
    for (int i = 0; i < kInt8Loads; ++i) a[i] = term.load(p, shared.places[a_row(i)]);
    const std::int64_t lanes = p.weight.lanes(panel);
    const std::uint32_t* from = p.packed + p.weight.panel_at(panel) / 4;
#pragma unroll
    for (int i = 0; i < kInt8Loads; ++i) {
      const std::int64_t word = first + b_word(i);
      const bool is_there = word < p.weight.taps * p.weight.quads() && b_column() < lanes;
      b[i] = is_there ? from[word * lanes + b_column()] : 0;
    }
  }
  __device__ void write(Int8Shared& shared) const {
#pragma unroll
    for (int i = 0; i < kInt8Loads; ++i) {
      shared.a[a_row(i)][a_word()] = a[i];
      shared.b[b_word(i)][b_column()] = b[i];
    }
  }
};

// A warp's 32 by 32 sums: two by four products. In each, a group of four threads has a row of a and a column of b.
struct Int8Sums {
  std::int32_t sum[2][4][4] = {};
  int row, column;  // of the warp
  int group, member;

  __device__ Int8Sums()
      : row(static_cast<int>(threadIdx.x) / 64 * 32),
        column(static_cast<int>(threadIdx.x) / 32 % 2 * 32),
        group(static_cast<int>(threadIdx.x) % 32 / 4),
        member(static_cast<int>(threadIdx.x) % 4) {}

  __device__ void add(const Int8Shared& shared) {
#pragma unroll
    for (int word = 0; word < kInt8Words; word += 8) {
      std::uint32_t b[4][2];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        b[n][0] = shared.b[word + member][column + 8 * n + group];
        b[n][1] = shared.b[word + 4 + member][column + 8 * n + group];
      }
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const auto* upper = shared.a[row + 16 * m + group];
        const auto* lower = shared.a[row + 16 * m + 8 + group];
        const std::uint32_t a[4] = {upper[word + member], lower[word + member], upper[word + 4 + member],
                                    lower[word + 4 + member]};
#pragma unroll
        for (int n = 0; n < 4; ++n) multiply_bytes(sum[m][n], a, b[n]);
      }
    }
  }

  __device__ void write(const Int8Product& p, const Int8Shared& shared, std::int64_t first, std::int64_t panel) const {
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = row + 16 * m + 8 * half + group;
        const std::int64_t image = shared.places[at].image;
        if (image < 0) continue;
        const float scale = p.x.scales[image];
        const std::int32_t zero = p.x.zeros[image];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const std::int64_t o = panel * kInt8Panel + column + i / 2 * 8 + 2 * member + i % 2;
          if (o >= p.s.o) continue;
          const float y = int8_result(sum[m][i / 2][2 * half + i % 2], zero, p.sums[o], scale, p.scale[o]);
          p.y[(first + at) * p.s.o + o] = p.bias != nullptr ? y + p.bias[o] : y;
        }
      }
    }
  }
};

// A block a tile; neighbours have the same rows.
__global__ void __launch_bounds__(kInt8Threads) int8_tile_kernel(const __grid_constant__ Int8Product p) {
  __shared__ Int8Shared shared;
  const std::int64_t panel = blockIdx.x % p.weight.panels();
  const std::int64_t first = blockIdx.x / p.weight.panels() * kInt8Rows;
  for (int r = static_cast<int>(threadIdx.x); r < kInt8Rows; r += kInt8Threads) {
    shared.places[r] = int8_place(p, first + r);
  }
  __syncthreads();
  Int8Sums sums;
  Int8Loads next;
  const std::int64_t words = p.weight.taps * p.weight.quads();
  next.read(p, shared, panel, 0);
  for (std::int64_t word = 0; word < words; word += kInt8Words) {
    next.write(shared);
    __syncthreads();
    if (word + kInt8Words < words) next.read(p, shared, panel, word + kInt8Words);
    sums.add(shared);
    __syncthreads();
  }
  sums.write(p, shared, first, panel);
}

inline void run_int8_tiles(const Int8Product& p, cudaStream_t stream) {
  const std::int64_t tiles = (p.rows + kInt8Rows - 1) / kInt8Rows * p.weight.panels();
  int8_tile_kernel<<<static_cast<unsigned>(tiles), kInt8Threads, 0, stream>>>(p);
  check_launch("int8");
}

}  // namespace neap::ops

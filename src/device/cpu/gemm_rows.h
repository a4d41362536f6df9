// Part of gemm_simd.cc: the rows of A in tiles for the kernels, where they lie or copied.
#pragma once

#include "device/cpu/gemm_pack.h"

namespace neap::NEAP_ISA_NS {
namespace {

// Lines a multiple of 4 KiB apart share the eight places of one set of a common L1 cache.
NEAP_VM bool lines_collide(std::int64_t ld) {
  const std::uint64_t past = static_cast<std::uint64_t>(ld) * sizeof(float) % 4096;
  return past < 64 || past > 4096 - 64;
}

// Rows of a tile. Each holds a line of A in the cache; where these collide, there must not be more of them than places.
NEAP_VM std::int64_t tile_rows(const GemmOperand& a) {
  constexpr int kPlaces = 7;  // and one for B
  return !a.transposed && lines_collide(a.ld) && kTileRows > kPlaces ? kPlaces : kTileRows;
}

constexpr TileFunctions kTiles = all_tiles<Fma>();

struct RowTile {
  std::int64_t first, rows;
  const float* a;
  std::int64_t a_stride;
  const TileFunction* functions;  // by the number of vectors, less one
};

// A few tiles at a time: while they are in the cache, each panel of B is used for all of them.
constexpr std::int64_t kGroupTiles = 4;
struct RowTiles {
  RowTile tile[kGroupTiles];
  std::int64_t count;
};

// From row `first` on, of `rows` rows in `tiles` tiles that are as equal as can be.
inline RowTiles next_tiles(const GemmOperand& a, std::int64_t first, std::int64_t rows, std::int64_t tiles) {
  RowTiles next = {{}, tiles < kGroupTiles ? tiles : kGroupTiles};
  for (std::int64_t t = 0; t < next.count; ++t, --tiles) {
    const std::int64_t here = (rows + tiles - 1) / tiles;
    const auto& functions = a.transposed ? kTiles.by_column : kTiles.by_row;
    next.tile[t] = {first, here, corner(a, first, 0).data, a.ld, functions[here - 1]};
    first += here;
    rows -= here;
  }
  return next;
}

// In a copy of tiles, rows are this far apart: neighbours fall into different sets of the L1 cache.
constexpr std::int64_t kCopyStride = kGemmBlockK + 16;
constexpr std::int64_t kCopyTileFloats = kTileRows * kCopyStride;
constexpr std::int64_t kCopyFloats = kGroupTiles * kCopyTileFloats;

inline void copy_rows(const RowTile& tile, std::int64_t k, float alpha, float* dst) {
  const float* a = tile.a;
  for (std::int64_t i = 0; i < tile.rows; ++i, a += tile.a_stride, dst += kCopyStride) {
    std::int64_t p = 0;
    for (; p + kLanes <= k; p += kLanes) vstore(dst + p, vload(a + p) * alpha);
    vstore(dst + p, vload_n(a + p, k - p) * alpha);
  }
}

// From a transposed A of m rows: each tile's elements for one k side by side. All tiles in one pass, to use whole
// lines.
inline void copy_columns(const RowTiles& tiles, std::int64_t m, std::int64_t k, float alpha, float* dst) {
  constexpr std::int64_t kAhead = 16;  // far enough to hide memory, near enough to stay in the cache
  for (std::int64_t p = 0; p < k; ++p) {
    for (std::int64_t t = 0; t < tiles.count; ++t) {
      const RowTile& tile = tiles.tile[t];
      const float* from = tile.a + p * tile.a_stride;
      float* to = dst + t * kCopyTileFloats + p * tile.rows;
      __builtin_prefetch(from + kAhead * tile.a_stride);
      for (std::int64_t i = 0; i < tile.rows; i += kLanes) {
        // Lanes beyond the tile are overwritten by the next k; after the last there is room.
        const std::int64_t left = m - tile.first - i;
        vstore(to + i, (left >= kLanes ? vload(from + i) : vload_n(from + i, left)) * alpha);
      }
    }
  }
}

// Puts alpha * A in place of A, by way of kCopyFloats floats.
inline void copy_tiles(RowTiles& tiles, bool transposed, std::int64_t m, std::int64_t k, float alpha, float* copy) {
  if (transposed) copy_columns(tiles, m, k, alpha, copy);
  for (std::int64_t t = 0; t < tiles.count; ++t) {
    RowTile& tile = tiles.tile[t];
    float* here = copy + t * kCopyTileFloats;
    if (!transposed) copy_rows(tile, k, alpha, here);
    tile.a = here;
    tile.a_stride = transposed ? tile.rows : kCopyStride;
  }
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS

#include <omp.h>

#include "ops/sparse/sparse.h"
#include "ops/sparse/sparse_simd.h"

namespace neap::ops {
namespace {

constexpr std::int64_t kChunk = 64;  // rows for which panels stay in the cache

void multiply_panels(const SparseLayer& s, const Buffers& b, std::int64_t first, std::int64_t panel) {
  const SparseWeight& w = s.weight;
  const std::int64_t rows = std::min(kChunk, s.rows - first);
  const std::int64_t o = panel * SparseWeight::kLanes;
  const std::int64_t at = w.vector(panel, 0, 0);
  for (std::int64_t r = 0; r < rows; r += kSparseRows) {
    sparse_table().tile({.x = b.in<float>(0) + (first + r) * w.in,
                         .x_stride = w.in,
                         .groups = w.groups(),
                         .kept = w.kept,
                         .values = b.in<float>(1) + at * SparseWeight::kLanes,
                         .index = b.in<std::uint64_t>(2) + at,
                         .panels = std::min<std::int64_t>(2, w.panels() - panel),
                         .columns = std::min(2 * SparseWeight::kLanes, w.out - o),
                         .rows = std::min(kSparseRows, rows - r),
                         .bias = s.bias ? b.in<float>(3) + o : nullptr,
                         .y = b.out<float>(0) + (first + r) * w.out + o,
                         .y_stride = w.out});
  }
}

// Tiles of transposed rows, and the bytes that all of them take.
struct Tiles {
  std::int64_t rows, in;
  std::int64_t count() const { return (rows + kListedRows - 1) / kListedRows; }
  std::int64_t rows_of(std::int64_t tile) const { return std::min(kListedRows, rows - tile * kListedRows); }
  std::int64_t width(std::int64_t tile) const { return (rows_of(tile) + 15) / 16 * 16; }
  std::int64_t at(std::int64_t tile) const { return tile * kListedRows * in; }
  std::int64_t bytes() const { return count() * kListedRows * in * 4; }
};

void multiply_block(const ListedLayer& s, const Tiles& tiles, const Buffers& b, std::int64_t tile, std::int64_t o) {
  sparse_table().listed({.xt = reinterpret_cast<const float*>(b.workspace) + tiles.at(tile),
                         .width = tiles.width(tile),
                         .rows = tiles.rows_of(tile),
                         .values = b.in<float>(1),
                         .index = b.in<std::uint16_t>(2),
                         .start = b.in<std::int32_t>(3) + o,
                         .outputs = std::min(kListedOutputs, s.out - o),
                         .bias = s.bias ? b.in<float>(4) + o : nullptr,
                         .y = b.out<float>(0) + tile * kListedRows * s.out + o,
                         .y_stride = s.out});
}

void multiply_few(const ListedLayer& s, const Buffers& b) {
  const auto* start = b.in<std::int32_t>(3);
#pragma omp parallel for schedule(static)
  for (std::int64_t o = 0; o < s.out; ++o) {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const float sum = sparse_table().dot(b.in<float>(0) + r * s.in, b.in<float>(1) + start[o],
                                           b.in<std::uint16_t>(2) + start[o], start[o + 1] - start[o]);
      b.out<float>(0)[r * s.out + o] = sum + (s.bias ? b.in<float>(4)[o] : 0);
    }
  }
}

}  // namespace

Prepared sparse_simd(const SparseLayer& s) {
  return function_kernel([s](const Buffers& b) {
    const std::int64_t pairs = (s.weight.panels() + 1) / 2;
    const std::int64_t chunks = (s.rows + kChunk - 1) / kChunk;
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < chunks * pairs; ++i) multiply_panels(s, b, i / pairs * kChunk, i % pairs * 2);
  });
}

// Few rows are gathered weight by weight; more of them go side by side through vectors, transposed.
Prepared listed_simd(const ListedLayer& s) {
  constexpr std::int64_t kFew = 6;
  if (s.rows <= kFew) return function_kernel([s](const Buffers& b) { multiply_few(s, b); });
  const Tiles tiles{s.rows, s.in};
  const auto run = [s, tiles](const Buffers& b) {
    auto* xt = reinterpret_cast<float*>(b.workspace);
    const std::int64_t blocks = (s.out + kListedOutputs - 1) / kListedOutputs;
#pragma omp parallel
    {
#pragma omp for schedule(static)
      for (std::int64_t t = 0; t < tiles.count(); ++t) {
        const float* x = b.in<float>(0) + t * kListedRows * s.in;
        sparse_table().transpose(x, tiles.rows_of(t), s.in, tiles.width(t), xt + tiles.at(t));
      }
#pragma omp for schedule(static)
      for (std::int64_t i = 0; i < tiles.count() * blocks; ++i) {
        multiply_block(s, tiles, b, i / blocks, i % blocks * kListedOutputs);
      }
    }
  };
  return function_kernel(run, tiles.bytes());
}

}  // namespace neap::ops

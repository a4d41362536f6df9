// Products whose operands are made element by element while they are read: integers less their zero points, windows of
// an image. A block has a tile of the result and goes along the sum in its order.
//
// A problem P says
//   Number, Sum                                      of an element, and what products are added up in
//   batches, rows, columns, depth                    sizes of the products
//   Batch batch(t)                                   what all elements of product t need
//   Row row(batch, i), Term term(batch, l)           the same for row i of the left, and for term l of a row
//   Number left(batch, row, term), right(batch, l, j)
//   kRightByTerms                                    the right operand's terms, not its columns, lie side by side
//   void store(batch, i, j, Sum)
#pragma once

#include "device/cuda/launch.cuh"

namespace neap::ops {

inline constexpr int kProductTile = 64;   // rows and columns of a tile
inline constexpr int kProductDepth = 32;  // terms in shared memory at one time
inline constexpr int kProductOwn = 4;     // a thread has 4 x 4 results: 16 x 16 threads
inline constexpr int kProductPitch = kProductTile + 4;

template <class P>
struct TileShared {
  typename P::Row rows[kProductTile];
  typename P::Number left[kProductDepth][kProductPitch];
  typename P::Number right[kProductDepth][kProductPitch];
};

// Terms `first` and on; zeros beyond the end.
template <class P>
__device__ void load_tile(const P& p, const typename P::Batch& batch, std::int64_t i, std::int64_t j,
                          std::int64_t first, TileShared<P>& shared) {
  const int thread = static_cast<int>(threadIdx.x);
  const int own = thread % kProductDepth;
  const bool is_term = first + own < p.depth;
  const typename P::Term term = is_term ? p.term(batch, first + own) : typename P::Term{};
  for (int r = thread / kProductDepth; r < kProductTile; r += kThreads / kProductDepth) {
    shared.left[own][r] = is_term && i + r < p.rows ? p.left(batch, shared.rows[r], term) : typename P::Number{};
  }
  for (int e = thread; e < kProductDepth * kProductTile; e += kThreads) {
    const int l = P::kRightByTerms ? e % kProductDepth : e / kProductTile;
    const int c = P::kRightByTerms ? e / kProductDepth : e % kProductTile;
    const bool is_in = first + l < p.depth && j + c < p.columns;
    shared.right[l][c] = is_in ? p.right(batch, first + l, j + c) : typename P::Number{};
  }
}

template <class P>
__device__ void multiply_tile(const TileShared<P>& shared, typename P::Sum (&sums)[kProductOwn][kProductOwn]) {
  const int row = static_cast<int>(threadIdx.x) / (kProductTile / kProductOwn) * kProductOwn;
  const int column = static_cast<int>(threadIdx.x) % (kProductTile / kProductOwn) * kProductOwn;
  for (int l = 0; l < kProductDepth; ++l) {
#pragma unroll
    for (int a = 0; a < kProductOwn; ++a) {
#pragma unroll
      for (int b = 0; b < kProductOwn; ++b) {
        sums[a][b] += static_cast<typename P::Sum>(shared.left[l][row + a]) *
                      static_cast<typename P::Sum>(shared.right[l][column + b]);
      }
    }
  }
}

template <class P>
__global__ void __launch_bounds__(kThreads) tile_product_kernel(const __grid_constant__ P p, std::int64_t tiles) {
  __shared__ TileShared<P> shared;
  const std::int64_t across = (p.columns + kProductTile - 1) / kProductTile;
  const std::int64_t down = (p.rows + kProductTile - 1) / kProductTile;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const typename P::Batch batch = p.batch(tile / (across * down));
    const std::int64_t i = tile / across % down * kProductTile;
    const std::int64_t j = tile % across * kProductTile;
    for (int r = static_cast<int>(threadIdx.x); r < kProductTile; r += kThreads) {
      shared.rows[r] = i + r < p.rows ? p.row(batch, i + r) : typename P::Row{};
    }
    __syncthreads();
    typename P::Sum sums[kProductOwn][kProductOwn] = {};
    for (std::int64_t first = 0; first < p.depth; first += kProductDepth) {
      load_tile(p, batch, i, j, first, shared);
      __syncthreads();
      multiply_tile(shared, sums);
      __syncthreads();
    }
    const std::int64_t row = i + static_cast<int>(threadIdx.x) / (kProductTile / kProductOwn) * kProductOwn;
    const std::int64_t column = j + static_cast<int>(threadIdx.x) % (kProductTile / kProductOwn) * kProductOwn;
#pragma unroll
    for (int a = 0; a < kProductOwn; ++a) {
#pragma unroll
      for (int b = 0; b < kProductOwn; ++b) {
        if (row + a < p.rows && column + b < p.columns) p.store(batch, row + a, column + b, sums[a][b]);
      }
    }
    __syncthreads();  // the rows are free for the next tile
  }
}

template <class P>
void tile_product(const char* name, const P& p, cudaStream_t stream) {
  const std::int64_t across = (p.columns + kProductTile - 1) / kProductTile;
  const std::int64_t down = (p.rows + kProductTile - 1) / kProductTile;
  const std::int64_t tiles = p.batches * across * down;
  if (tiles == 0) return;
  const auto blocks = static_cast<unsigned>(tiles < kMostBlocks ? tiles : kMostBlocks);
  tile_product_kernel<<<blocks, kThreads, 0, stream>>>(p, tiles);
  check_launch(name);
}

}  // namespace neap::ops

// Which picks belong to each row of a result, as lists, and a walk along each of them in the order of the picks,
// whatever block comes first.
#pragma once

#include "core/bytes.h"
#include "device/cuda/rank.cuh"

namespace neap::ops {

// Counts, then where each list begins, then the picks in any order. Integers, so atomics do not change the result.
struct Lists {
  int* begin;   // [rows + 1]
  int* cursor;  // [rows]
  int* picks;   // [picks]

  static std::int64_t bytes(std::int64_t rows, std::int64_t picks) {
    return align_up((rows + 1) * kNumber) + align_up(rows * kNumber) + picks * kNumber;
  }
  Lists(std::byte* workspace, std::int64_t rows)
      : begin(reinterpret_cast<int*>(workspace)),
        cursor(reinterpret_cast<int*>(workspace + align_up((rows + 1) * kNumber))),
        picks(reinterpret_cast<int*>(workspace + align_up((rows + 1) * kNumber) + align_up(rows * kNumber))) {}

  static constexpr std::int64_t kNumber = sizeof(int);
};

template <class Row>
__global__ void count_kernel(std::int64_t picks, Row row_of, Lists lists) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < picks; i += stride) {
    atomicAdd(&lists.cursor[row_of(i)], 1);
  }
}

// One block, kOwn neighbours (a multiple of four) a thread: sums of what came before.
template <int kOwn>
__global__ void __launch_bounds__(1024) begin_kernel(std::int64_t rows, int* begin, int* cursor) {
  __shared__ int warps[32];
  int before = 0;
  for (std::int64_t first = 0; first < rows; first += kOwn * static_cast<std::int64_t>(blockDim.x)) {
    const std::int64_t i = first + static_cast<std::int64_t>(threadIdx.x) * kOwn;
    alignas(16) int counts[kOwn] = {};
    if (i + kOwn <= rows) {
      for (int k = 0; k < kOwn; k += 4) {
        *reinterpret_cast<int4*>(counts + k) = *reinterpret_cast<const int4*>(cursor + i + k);
      }
    } else {
      for (int k = 0; k < kOwn && i + k < rows; ++k) counts[k] = cursor[i + k];
    }
    int own = 0;
    for (const int count : counts) own += count;
    const Prefix found = block_prefix(own, warps);
    int start = before + found.before;
    for (int& count : counts) {
      const int next = start + count;
      count = start;
      start = next;
    }
    before += found.all;
    for (int* to : {begin, cursor}) {
      if (i + kOwn <= rows) {
        for (int k = 0; k < kOwn; k += 4) {
          *reinterpret_cast<int4*>(to + i + k) = *reinterpret_cast<const int4*>(counts + k);
        }
      } else {
        for (int k = 0; k < kOwn && i + k < rows; ++k) to[i + k] = counts[k];
      }
    }
  }
  if (threadIdx.x == 0) begin[rows] = before;
}

// From how many each of `rows` rows has (`cursor`): where its list begins, in `cursor` and in `begin`, which has one
// place more for the end of the last. Both aligned to 16 bytes.
inline void begin_lists(std::int64_t rows, int* begin, int* cursor, cudaStream_t stream) {
  begin_kernel<8><<<1, 1024, 0, stream>>>(rows, begin, cursor);
  check_launch("begin_lists");
}

template <class Row>
__global__ void fill_kernel(std::int64_t picks, Row row_of, Lists lists) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < picks; i += stride) {
    lists.picks[atomicAdd(&lists.cursor[row_of(i)], 1)] = static_cast<int>(i);
  }
}

// The lists of `rows` rows; row_of(pick) says to which it belongs.
template <class Row>
void list_picks(std::int64_t rows, std::int64_t picks, const Row& row_of, const Lists& lists, cudaStream_t stream) {
  NEAP_CHECK_CUDA(cudaMemsetAsync(lists.cursor, 0, static_cast<std::size_t>(rows * Lists::kNumber), stream));
  if (picks > 0) count_kernel<<<blocks_for(picks), kThreads, 0, stream>>>(picks, row_of, lists);
  begin_lists(rows, lists.begin, lists.cursor, stream);
  if (picks > 0) fill_kernel<<<blocks_for(picks), kThreads, 0, stream>>>(picks, row_of, lists);
  check_launch("list_picks");
}

// A block a row of the result, of `inner` elements: puts a part of its list in order (each thread finds the rank of one
// pick among those that are left), then takes in the rows they stand for; a thread has some of the columns.
template <class T, class Fold>
__global__ void __launch_bounds__(kThreads)
    fold_kernel(std::int64_t rows, std::int64_t inner, Lists lists, Fold fold, T* dst) {
  constexpr int kAtOnce = 256;
  __shared__ int sorted[kAtOnce];
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int begin = lists.begin[row];
    const int count = lists.begin[row + 1] - begin;
    T* to = dst + row * inner;
    for (std::int64_t c = threadIdx.x; c < inner; c += kThreads) to[c] = fold.first(row * inner + c);
    for (int done = 0; done < count; done += kAtOnce) {
      for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
        const int own = lists.picks[begin + i];
        int rank = 0;
        for (int k = 0; k < count; ++k) rank += lists.picks[begin + k] < own ? 1 : 0;
        if (rank >= done && rank < done + kAtOnce) sorted[rank - done] = own;
      }
      __syncthreads();
      const int here = count - done < kAtOnce ? count - done : kAtOnce;
      for (std::int64_t c = threadIdx.x; c < inner; c += kThreads) {
        T value = to[c];
        for (int k = 0; k < here; ++k) value = fold.next(value, sorted[k] * inner + c);
        to[c] = value;
      }
      __syncthreads();
    }
  }
}

// dst[row][c] = fold.first(place in dst), then, pick by pick of its list, fold.next(value, place in [picks][inner]).
template <class T, class Fold>
void fold_lists(const char* name, std::int64_t rows, std::int64_t inner, const Lists& lists, const Fold& fold, T* dst,
                cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(rows < kMostBlocks ? rows : kMostBlocks);
  fold_kernel<<<blocks, kThreads, 0, stream>>>(rows, inner, lists, fold, dst);
  check_launch(name);
}

// Zeros, to which the rows of `src` are added.
struct AddFold {
  const float* src;
  __device__ float first(std::int64_t /*at*/) const { return 0; }
  __device__ float next(float sum, std::int64_t at) const { return sum + src[at]; }
};

}  // namespace neap::ops

// Rows picked by index, and their gradient: each row of the result adds up what belongs to it in the order of the
// indices, whatever block comes first.
#include "core/bytes.h"
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/gather/lists_cuda.h"
#include "ops/gather/rows.h"

namespace neap::ops {
namespace {

struct Places {
  Indices indices;
  const void* data;
  CudaFault* fault;
  int op;

  // An index out of range is noted for the host, and read as 0.
  __device__ std::int64_t operator()(std::int64_t i) const {
    const std::int64_t raw =
        indices.wide ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
    const std::int64_t at = raw < 0 && indices.wraps ? raw + indices.bound : raw;
    if (at >= 0 && at < indices.bound) return at;
    if (atomicCAS(&fault->is_set, 0, 1) == 0) {
      fault->op = op;
      fault->index = raw;
      fault->bound = indices.bound;
    }
    return 0;
  }
};

Places places_of(const RowPick& p, const void* data) {
  return {p.indices, data, CudaContext::get().fault(), p.op == "embedding" ? 0 : 1};
}

template <class T>
void run_pick(const PickShape& s, const Places& places, const T* src, T* dst, cudaStream_t stream) {
  if (s.axis == 0) return;
  constexpr std::int64_t kAtOnce = sizeof(uint4) / sizeof(T);
  if constexpr (kAtOnce > 1) {
    const auto is_aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % sizeof(uint4) == 0; };
    if (s.inner % kAtOnce == 0 && is_aligned(src) && is_aligned(dst)) {
      PickShape wide = s;
      wide.inner /= kAtOnce;
      return run_pick(wide, places, reinterpret_cast<const uint4*>(src), reinterpret_cast<uint4*>(dst), stream);
    }
  }
  each("pick_rows", s.outer * s.picks * s.inner, stream, [=] __device__(std::int64_t e) {
    const std::int64_t row = e / s.inner;
    dst[e] = src[(row / s.picks * s.axis + places(row % s.picks)) * s.inner + e % s.inner];
  });
}

// The picks of each row as a list: counts, then where each list begins, then the picks in any order. Integers, so
// atomics do not change the result.
struct Lists {
  int* begin;   // [rows + 1]
  int* cursor;  // [rows]
  int* picks;   // [picks]
};

__global__ void count_kernel(PickShape s, Places places, Lists lists) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < s.picks; i += stride) {
    atomicAdd(&lists.cursor[places(i)], 1);
  }
}

// Sums of what came before in the block, and of the whole block.
__device__ int2 block_prefix(int own, int* warps) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int sum = own;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(0xffffffffU, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == 31) warps[warp] = sum;
  __syncthreads();
  int before = 0;
  int all = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) {
    if (w < warp) before += warps[w];
    all += warps[w];
  }
  __syncthreads();
  return {before + sum - own, all};
}

// One block, eight neighbours a thread: sums of what came before.
__global__ void __launch_bounds__(1024) begin_kernel(std::int64_t rows, Lists lists) {
  constexpr int kOwn = 8;
  __shared__ int warps[32];
  int before = 0;
  for (std::int64_t first = 0; first < rows; first += kOwn * static_cast<std::int64_t>(blockDim.x)) {
    const std::int64_t i = first + static_cast<std::int64_t>(threadIdx.x) * kOwn;
    alignas(16) int counts[kOwn] = {};
    if (i + kOwn <= rows) {
      for (int k = 0; k < kOwn; k += 4) {
        *reinterpret_cast<int4*>(counts + k) = *reinterpret_cast<const int4*>(lists.cursor + i + k);
      }
    } else {
      for (int k = 0; k < kOwn && i + k < rows; ++k) counts[k] = lists.cursor[i + k];
    }
    int own = 0;
    for (const int count : counts) own += count;
    const int2 found = block_prefix(own, warps);
    int start = before + found.x;
    for (int& count : counts) {
      const int next = start + count;
      count = start;
      start = next;
    }
    before += found.y;
    for (int* to : {lists.begin, lists.cursor}) {
      if (i + kOwn <= rows) {
        for (int k = 0; k < kOwn; k += 4) {
          *reinterpret_cast<int4*>(to + i + k) = *reinterpret_cast<const int4*>(counts + k);
        }
      } else {
        for (int k = 0; k < kOwn && i + k < rows; ++k) to[i + k] = counts[k];
      }
    }
  }
  if (threadIdx.x == 0) lists.begin[rows] = before;
}

__global__ void fill_kernel(PickShape s, Places places, Lists lists) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < s.picks; i += stride) {
    lists.picks[atomicAdd(&lists.cursor[places(i)], 1)] = static_cast<int>(i);
  }
}

constexpr int kAtOnce = 256;

// A block a row of the result: puts a part of its list in order (each thread finds the rank of one pick among those
// that are left), then adds the rows they stand for; a thread has some of the columns.
__global__ void __launch_bounds__(kThreads) add_kernel(PickShape s, Lists lists, const float* src, float* dst) {
  __shared__ int sorted[kAtOnce];
  for (std::int64_t row = blockIdx.x; row < s.axis; row += gridDim.x) {
    const int begin = lists.begin[row];
    const int count = lists.begin[row + 1] - begin;
    float* to = dst + row * s.inner;
    for (std::int64_t c = threadIdx.x; c < s.inner; c += kThreads) to[c] = 0;
    for (int done = 0; done < count; done += kAtOnce) {
      for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
        const int own = lists.picks[begin + i];
        int rank = 0;
        for (int k = 0; k < count; ++k) rank += lists.picks[begin + k] < own ? 1 : 0;
        if (rank >= done && rank < done + kAtOnce) sorted[rank - done] = own;
      }
      __syncthreads();
      const int here = count - done < kAtOnce ? count - done : kAtOnce;
      for (std::int64_t c = threadIdx.x; c < s.inner; c += kThreads) {
        float sum = to[c];
        for (int k = 0; k < here; ++k) sum += src[sorted[k] * s.inner + c];
        to[c] = sum;
      }
      __syncthreads();
    }
  }
}

}  // namespace

void list_begins_cuda(std::int64_t rows, int* begin, int* cursor, cudaStream_t stream) {
  begin_kernel<<<1, 1024, 0, stream>>>(rows, Lists{.begin = begin, .cursor = cursor, .picks = nullptr});
  check_launch("list_begins");
}

Prepared pick_rows_cuda(const RowPick& pick, std::size_t data, std::size_t index) {
  if (pick.element_bytes != 4 && pick.element_bytes != 8) return Declined{"elements of 4 or 8 bytes only"};
  return cuda_kernel([p = pick, data, index](const Buffers& b, cudaStream_t stream) {
    const Places places = places_of(p, b.in<void>(index));
    if (p.element_bytes == 4) {
      run_pick(p.shape, places, b.in<std::uint32_t>(data), b.out<std::uint32_t>(0), stream);
    } else {
      run_pick(p.shape, places, b.in<std::uint64_t>(data), b.out<std::uint64_t>(0), stream);
    }
  });
}

Prepared add_rows_cuda(const RowPick& pick) {
  const std::int64_t number = sizeof(int);
  const std::int64_t rows = pick.shape.axis;
  const std::int64_t bytes = align_up((rows + 1) * number) + align_up(rows * number) + pick.shape.picks * number;
  return cuda_kernel(
      [p = pick, rows, number](const Buffers& b, cudaStream_t stream) {
        if (rows == 0 || p.shape.inner == 0) return;
        auto* cursor = b.workspace + align_up((rows + 1) * number);
        const Lists lists{.begin = reinterpret_cast<int*>(b.workspace),
                          .cursor = reinterpret_cast<int*>(cursor),
                          .picks = reinterpret_cast<int*>(cursor + align_up(rows * number))};
        const Places places = places_of(p, b.in<void>(0));
        const auto blocks = static_cast<unsigned>(rows < kMostBlocks ? rows : kMostBlocks);
        for (std::int64_t o = 0; o < p.shape.outer; ++o) {
          NEAP_CHECK_CUDA(cudaMemsetAsync(cursor, 0, static_cast<std::size_t>(rows * number), stream));
          if (p.shape.picks > 0)
            count_kernel<<<blocks_for(p.shape.picks), kThreads, 0, stream>>>(p.shape, places, lists);
          list_begins_cuda(rows, lists.begin, lists.cursor, stream);
          if (p.shape.picks > 0)
            fill_kernel<<<blocks_for(p.shape.picks), kThreads, 0, stream>>>(p.shape, places, lists);
          add_kernel<<<blocks, kThreads, 0, stream>>>(p.shape, lists,
                                                      b.in<float>(1) + o * p.shape.picks * p.shape.inner,
                                                      b.out<float>(0) + o * rows * p.shape.inner);
          check_launch("add_rows");
        }
      },
      bytes);
}

}  // namespace neap::ops

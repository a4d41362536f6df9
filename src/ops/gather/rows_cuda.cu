// Rows picked by index, and their gradient: each row of the result adds up what belongs to it in the order of the
// indices, whatever block comes first.
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
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
  each("pick_rows", s.outer * s.picks * s.inner, stream, [=] __device__(std::int64_t e) {
    const std::int64_t row = e / s.inner;
    dst[e] = src[(row / s.picks * s.axis + places(row % s.picks)) * s.inner + e % s.inner];
  });
}

constexpr int kChunk = 1024;

// A block a row of the result: looks through the indices a chunk at a time, lists those that name it, and adds the rows
// they stand for; a thread has some of the columns.
__global__ void add_kernel(PickShape s, Places places, const float* src, float* dst) {
  __shared__ int found[kChunk];
  __shared__ int counts[kThreads / 32];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t row = blockIdx.x; row < s.outer * s.axis; row += gridDim.x) {
    const std::int64_t wanted = row % s.axis;
    const float* from = src + row / s.axis * s.picks * s.inner;
    float* to = dst + row * s.inner;
    for (std::int64_t c = threadIdx.x; c < s.inner; c += kThreads) to[c] = 0;
    for (std::int64_t first = 0; first < s.picks; first += kChunk) {
      int total = 0;
      for (int at = 0; at < kChunk && first + at < s.picks; at += kThreads) {
        const std::int64_t i = first + at + threadIdx.x;
        const bool is_it = i < s.picks && places(i) == wanted;
        const unsigned votes = __ballot_sync(0xffffffffU, is_it);
        if (lane == 0) counts[warp] = __popc(votes);
        __syncthreads();
        int before = total;
        for (int w = 0; w < kThreads / 32; ++w) {
          if (w < warp) before += counts[w];
          total += counts[w];
        }
        if (is_it) found[before + __popc(votes & ((1U << lane) - 1))] = at + static_cast<int>(threadIdx.x);
        __syncthreads();
      }
      for (std::int64_t c = threadIdx.x; c < s.inner && total > 0; c += kThreads) {
        float sum = to[c];
        for (int k = 0; k < total; ++k) sum += from[(first + found[k]) * s.inner + c];
        to[c] = sum;
      }
      __syncthreads();
    }
  }
}

}  // namespace

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
  return cuda_kernel([p = pick](const Buffers& b, cudaStream_t stream) {
    const std::int64_t rows = p.shape.outer * p.shape.axis;
    if (rows == 0 || p.shape.inner == 0) return;
    const auto blocks = static_cast<unsigned>(rows < kMostBlocks ? rows : kMostBlocks);
    add_kernel<<<blocks, kThreads, 0, stream>>>(p.shape, places_of(p, b.in<void>(0)), b.in<float>(1), b.out<float>(0));
    check_launch("add_rows");
  });
}

}  // namespace neap::ops

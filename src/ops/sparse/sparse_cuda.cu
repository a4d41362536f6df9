// Layers that skip zeros by pattern, on a GPU: a block has a panel of 16 outputs and some rows of x, of which a chunk
// of inputs at a time lies in shared memory, where each weight finds its own.
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/sparse/sparse.h"

namespace neap::ops {
namespace {

constexpr int kLanes = 16;
constexpr int kGroup = 8;
constexpr int kBlock = 128;
constexpr int kRowSlots = kBlock / kLanes;  // threads side by side for the rows of a lane
constexpr int kGroups = 16;                 // of inputs in shared memory
constexpr int kInputs = kGroups * kGroup;
constexpr int kStride = kInputs + 8;  // two rows that a warp reads at one time lie in different banks

struct Layer {
  SparseWeight w;
  std::int64_t rows;
  const float* x;
  const float* values;
  const std::uint64_t* index;
  const float* bias;  // null: none
  float* y;
};

// Inputs [from, from + kInputs) of `count` rows; zeros where there is none.
__device__ void load_inputs(const Layer& s, std::int64_t first, int count, std::int64_t from, float* to) {
  for (int i = static_cast<int>(threadIdx.x); i < count * kInputs; i += kBlock) {
    const std::int64_t row = first + i / kInputs;
    const std::int64_t in = from + i % kInputs;
    to[i / kInputs * kStride + i % kInputs] = row < s.rows && in < s.w.in ? s.x[row * s.w.in + in] : 0;
  }
}

// kEach rows a thread. Each sum goes through the inputs in order.
template <int kEach>
__global__ void __launch_bounds__(kBlock) sparse_kernel(const __grid_constant__ Layer s) {
  __shared__ float inputs[kEach * kRowSlots * kStride];
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int slot = static_cast<int>(threadIdx.x) / kLanes;
  const std::int64_t panel = blockIdx.x % s.w.panels();
  const std::int64_t first = blockIdx.x / s.w.panels() * kEach * kRowSlots;
  float sum[kEach] = {};
  for (std::int64_t group = 0; group < s.w.groups(); group += kGroups) {
    load_inputs(s, first, kEach * kRowSlots, group * kGroup, inputs);
    __syncthreads();
    const int groups = static_cast<int>(s.w.groups() - group < kGroups ? s.w.groups() - group : kGroups);
    for (int i = 0; i < groups * static_cast<int>(s.w.kept); ++i) {
      const std::int64_t vector = s.w.vector(panel, group, i);
      const float value = s.values[vector * kLanes + lane];
      const int place =
          i / static_cast<int>(s.w.kept) * kGroup + static_cast<int>(s.index[vector] >> SparseWeight::bit(lane) & 15U);
#pragma unroll
      for (int r = 0; r < kEach; ++r) sum[r] = fmaf(value, inputs[(r * kRowSlots + slot) * kStride + place], sum[r]);
    }
    __syncthreads();
  }
  const std::int64_t o = panel * kLanes + lane;
#pragma unroll
  for (int r = 0; r < kEach; ++r) {
    const std::int64_t row = first + r * kRowSlots + slot;
    if (row < s.rows && o < s.w.out) s.y[row * s.w.out + o] = s.bias != nullptr ? sum[r] + s.bias[o] : sum[r];
  }
}

template <int kEach>
void run(const Layer& s, cudaStream_t stream) {
  const std::int64_t tiles = (s.rows + kEach * kRowSlots - 1) / (kEach * kRowSlots);
  sparse_kernel<kEach><<<static_cast<unsigned>(tiles * s.w.panels()), kBlock, 0, stream>>>(s);
  check_launch("linear_sparse");
}

// One group of a panel. A lane with more weights than the pattern has becomes NaN.
struct Pack {
  DenseWeight from;
  SparseWeight to;
  const float* weight;
  float* values;
  std::uint64_t* index;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t panel = i / to.groups();
    const std::int64_t first = to.vector(panel, i % to.groups(), 0);
    for (std::int64_t v = first; v < first + to.kept; ++v) index[v] = 0;
    for (int lane = 0; lane < kLanes; ++lane) pack_lane(panel * kLanes + lane, i % to.groups(), first, lane);
  }
  __device__ void pack_lane(std::int64_t o, std::int64_t group, std::int64_t first, int lane) const {
    std::int64_t n = 0;
    for (std::uint64_t i = 0; i < kGroup && o < to.out; ++i) {
      const float value = weight[from.at(o, group * kGroup + static_cast<std::int64_t>(i))];
      if (value == 0) continue;
      if (n == to.kept) {
        values[first * kLanes + lane] = NAN;
        return;
      }
      values[(first + n) * kLanes + lane] = value;
      index[first + n++] |= i << SparseWeight::bit(lane);
    }
    for (; n < to.kept; ++n) values[(first + n) * kLanes + lane] = 0;
  }
};

}  // namespace

Prepared sparse_cuda(const SparseLayer& layer) {
  return cuda_kernel([s = layer](const Buffers& b, cudaStream_t stream) {
    if (s.rows == 0) return;
    const Layer call{s.weight,       s.rows,         b.in<float>(0), b.in<float>(1), b.in<std::uint64_t>(2),
                     b.in<float>(3), b.out<float>(0)};
    s.rows <= kRowSlots ? run<1>(call, stream) : run<8>(call, stream);
  });
}

Prepared pack_sparse_cuda(const DenseWeight& from, const SparseWeight& to) {
  return cuda_kernel([from, to](const Buffers& b, cudaStream_t stream) {
    each("pack_sparse", to.panels() * to.groups(), stream,
         Pack{from, to, b.in<float>(0), b.out<float>(0), b.out<std::uint64_t>(1)});
  });
}

}  // namespace neap::ops

// Layers that skip zeros without a pattern, on a GPU. Many rows go through side by side, a lane each, transposed; with
// few rows the lanes share an output's weights.
#include "device/cuda/rank.cuh"
#include "ops/cuda_kernel.h"
#include "ops/sparse/sparse.h"

namespace neap::ops {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr int kTile = 32;  // rows, and outputs, of a block
constexpr std::int64_t kFew = 8;
constexpr int kWide = 1024;  // threads where there is one block

struct Layer {
  ListedLayer s;
  const float* x;
  const float* values;
  const std::uint16_t* index;
  const std::int32_t* start;
  const float* bias;  // null: none
  float* y;

  __device__ float result(float sum, std::int64_t o) const { return bias != nullptr ? sum + bias[o] : sum; }
};

// A warp a result.
__global__ void few_rows_kernel(const __grid_constant__ Layer c) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kWarps;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp; i < c.s.rows * c.s.out;
       i += step) {
    const std::int64_t o = i % c.s.out;
    const float* x = c.x + i / c.s.out * c.s.in;
    float sum = 0;
    for (std::int32_t n = c.start[o] + lane; n < c.start[o + 1]; n += kWarp) {
      sum = fmaf(c.values[n], x[c.index[n]], sum);
    }
    for (int half = kWarp / 2; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, half);
    if (lane == 0) c.y[i] = c.result(sum, o);
  }
}

// to[tile][i][r] = x[tile * kTile + r][i]; rows that are not there are 0.
__global__ void transpose_kernel(std::int64_t rows, std::int64_t in, const float* x, float* to) {
  __shared__ float part[kTile][kTile + 1];
  const std::int64_t parts = (in + kTile - 1) / kTile;
  const std::int64_t tile = blockIdx.x / parts;
  const std::int64_t first = blockIdx.x % parts * kTile;
  const int lane = static_cast<int>(threadIdx.x) % kTile;
  for (int r = static_cast<int>(threadIdx.x) / kTile; r < kTile; r += kThreads / kTile) {
    const std::int64_t row = tile * kTile + r;
    part[r][lane] = row < rows && first + lane < in ? x[row * in + first + lane] : 0;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x) / kTile; i < kTile && first + i < in; i += kThreads / kTile) {
    to[(tile * in + first + i) * kTile + lane] = part[lane][i];
  }
}

// A lane a row, a warp some outputs.
__global__ void many_rows_kernel(const __grid_constant__ Layer c, const float* transposed) {
  __shared__ float results[kTile][kTile + 1];  // [row][output]
  const std::int64_t blocks = (c.s.out + kTile - 1) / kTile;
  const std::int64_t tile = blockIdx.x / blocks;
  const std::int64_t first = blockIdx.x % blocks * kTile;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const float* x = transposed + tile * c.s.in * kTile + lane;
  for (int i = static_cast<int>(threadIdx.x) / kWarp; i < kTile && first + i < c.s.out; i += kWarps) {
    float sum = 0;
#pragma unroll 4
    for (std::int32_t n = c.start[first + i]; n < c.start[first + i + 1]; ++n) {
      sum = fmaf(c.values[n], x[static_cast<std::int64_t>(c.index[n]) * kTile], sum);
    }
    results[lane][i] = c.result(sum, first + i);
  }
  __syncthreads();
  for (int r = static_cast<int>(threadIdx.x) / kWarp; r < kTile; r += kWarps) {
    const std::int64_t row = tile * kTile + r;
    if (row < c.s.rows && first + lane < c.s.out) c.y[row * c.s.out + first + lane] = results[r][lane];
  }
}

std::int64_t tiles_of(std::int64_t n) { return (n + kTile - 1) / kTile; }

void run(const Layer& c, std::byte* workspace, cudaStream_t stream) {
  const ListedLayer& s = c.s;
  if (s.rows == 0) return;
  if (s.rows <= kFew) {
    few_rows_kernel<<<blocks_for(s.rows * s.out, kWarps), kThreads, 0, stream>>>(c);
    return check_launch("linear_listed");
  }
  auto* transposed = reinterpret_cast<float*>(workspace);
  transpose_kernel<<<static_cast<unsigned>(tiles_of(s.rows) * tiles_of(s.in)), kThreads, 0, stream>>>(s.rows, s.in, c.x,
                                                                                                      transposed);
  check_launch("linear_listed");
  many_rows_kernel<<<static_cast<unsigned>(tiles_of(s.rows) * tiles_of(s.out)), kThreads, 0, stream>>>(c, transposed);
  check_launch("linear_listed");
}

struct List {
  DenseWeight from;
  std::int64_t count;
  const float* weight;
  float* values;
  std::uint16_t* index;
  std::int32_t* start;
  std::int32_t* total;  // what the weight has, however many there is room for
};

// One block: how many weights are before each output's. A thread counts those of one output at a time.
__global__ void __launch_bounds__(kWide) starts_kernel(const __grid_constant__ List l) {
  __shared__ int scratch[kWide / kWarp];
  const int room = static_cast<int>(l.count);
  int before = 0;
  for (std::int64_t first = 0; first < l.from.out; first += kWide) {
    const std::int64_t o = first + threadIdx.x;
    int own = 0;
    for (std::int64_t i = 0; i < l.from.in && o < l.from.out; ++i) own += l.weight[l.from.at(o, i)] != 0 ? 1 : 0;
    const Prefix counted = block_prefix(own, scratch);
    const int at = before + counted.before;
    if (o < l.from.out) l.start[o] = at < room ? at : room;
    before += counted.all;
  }
  if (threadIdx.x != 0) return;
  l.start[l.from.out] = before < room ? before : room;
  *l.total = before;
}

struct Fill {
  List l;
  __device__ void operator()(std::int64_t o) const {
    std::int64_t n = l.start[o];
    for (std::int64_t i = 0; i < l.from.in && n < l.count; ++i) {
      const float value = l.weight[l.from.at(o, i)];
      if (value == 0) continue;
      l.values[n] = value;
      l.index[n++] = static_cast<std::uint16_t>(i);
    }
  }
};
// Room to spare is 0; too little makes all NaN.
struct Finish {
  List l;
  __device__ void operator()(std::int64_t n) const {
    if (n >= *l.total) {
      l.values[n] = 0;
      l.index[n] = 0;
    }
    if (*l.total > l.count) l.values[n] = NAN;
  }
};

void pack(const List& l, cudaStream_t stream) {
  starts_kernel<<<1, kWide, 0, stream>>>(l);
  check_launch("pack_listed");
  each("pack_listed", l.from.out, stream, Fill{l});
  each("pack_listed", l.count, stream, Finish{l});
}

}  // namespace

Prepared listed_cuda(const ListedLayer& layer) {
  const std::int64_t floats = layer.rows <= kFew ? 0 : tiles_of(layer.rows) * kTile * layer.in;
  return cuda_kernel(
      [s = layer](const Buffers& b, cudaStream_t stream) {
        run({s, b.in<float>(0), b.in<float>(1), b.in<std::uint16_t>(2), b.in<std::int32_t>(3), b.in<float>(4),
             b.out<float>(0)},
            b.workspace, stream);
      },
      floats * static_cast<std::int64_t>(sizeof(float)));
}

Prepared pack_listed_cuda(const DenseWeight& from, std::int64_t count) {
  return cuda_kernel(
      [from, count](const Buffers& b, cudaStream_t stream) {
        pack({from, count, b.in<float>(0), b.out<float>(0), b.out<std::uint16_t>(1), b.out<std::int32_t>(2),
              reinterpret_cast<std::int32_t*>(b.workspace)},
             stream);
      },
      sizeof(std::int32_t));
}

}  // namespace neap::ops

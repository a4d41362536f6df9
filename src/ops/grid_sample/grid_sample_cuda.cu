// Samples: a thread an element of the result. Gradients: each pixel has a list of the taps that read it, found by
// counting, put in the order of the points, and added up in it. Counts are of integers, so atomics do not change them.
#include "core/bytes.h"
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/gather/lists.cuh"
#include "ops/grid_sample/grid_sample.h"

namespace neap::ops {
namespace {

void run_forward(const Buffers& b, cudaStream_t stream, const GridProblem& p) {
  const auto* x = b.in<float>(0);
  const auto* grid = b.in<float>(1);
  auto* y = b.out<float>(0);
  each("grid_sample", p.n * p.points * p.channels, stream, [=] __device__(std::int64_t i) {
    const std::int64_t t = i / p.channels;
    const PointTaps taps = p.taps(grid, t);
    const float* image = x + t / p.points * p.pixels() * p.channels + i % p.channels;
    float sum = 0;
    for (int tap = 0; tap < taps.count(); ++tap) sum += taps.weight(tap) * image[taps.pixel(tap) * p.channels];
    y[i] = sum;
  });
}

// So many images at one time that the lists stay small; at least one.
struct Chunk {
  static constexpr std::int64_t kEntries = 1 << 22, kRows = 1 << 26;

  int taps;             // places that each point has in the lists
  std::int64_t images;  // at one time
  std::int64_t rows, entries;

  explicit Chunk(const GridProblem& p) : taps(p.most_taps()), images(p.n < 1 ? 1 : p.n) {
    const std::int64_t own = p.points * taps;
    if (own > 0 && images > kEntries / own) images = kEntries / own;
    if (p.pixels() > 0 && images > kRows / p.pixels()) images = kRows / p.pixels();
    if (images < 1) images = 1;
    rows = images * p.pixels();
    entries = images * own;
  }
  bool fits() const { return rows < INT32_MAX && entries < INT32_MAX; }
};

// A row is a pixel of one of the images, an entry a tap of one of their points.
struct TapLists {
  int* begin;      // [rows + 1]
  int* cursor;     // [rows]
  int* entries;    // those of each row
  float* weights;  // by entry

  TapLists(const Chunk& c, std::byte* workspace)
      : begin(reinterpret_cast<int*>(workspace)),
        cursor(reinterpret_cast<int*>(workspace + align_up((c.rows + 1) * 4))),
        entries(cursor + align_up(c.rows * 4) / 4),
        weights(reinterpret_cast<float*>(entries + c.entries)) {}
  static std::int64_t bytes(const Chunk& c) {
    return align_up((c.rows + 1) * 4) + align_up(c.rows * 4) + c.entries * 8;
  }
};

// Ascending, by the threads of a group that `sync` holds together: bitonic merges whose pairs are all in the same
// order, so that what would lie beyond the end counts as larger than all, and stays there.
template <class Sync>
__device__ void sort_list(int* list, std::int64_t count, int own, int threads, Sync sync) {
  for (std::int64_t size = 2; size / 2 < count; size *= 2) {
    for (std::int64_t gap = size / 2; gap > 0; gap /= 2) {
      const std::int64_t pairs = (count + 2 * gap - 1) / (2 * gap) * gap;
      for (std::int64_t i = own; i < pairs; i += threads) {
        const std::int64_t first = i / gap * 2 * gap;
        const std::int64_t low = first + i % gap;
        const std::int64_t high = gap == size / 2 ? first + 2 * gap - 1 - i % gap : low + gap;
        if (high >= count || list[low] <= list[high]) continue;
        const int larger = list[low];
        list[low] = list[high];
        list[high] = larger;
      }
      sync();
    }
  }
}

struct WarpSync {
  __device__ void operator()() const { __syncwarp(); }
};
struct BlockSync {
  __device__ void operator()() const { __syncthreads(); }
};

constexpr int kLong = 512;  // lists that a warp does not sort

__global__ void short_lists_kernel(std::int64_t rows, TapLists lists) {
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (kThreads / 32);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  for (std::int64_t row = first; row < rows; row += warps) {
    const int begin = lists.begin[row];
    const int count = lists.begin[row + 1] - begin;
    if (count < kLong) sort_list(lists.entries + begin, count, static_cast<int>(threadIdx.x) % 32, 32, WarpSync());
  }
}

// A block looks at as many rows as it has threads, and sorts the long ones among them.
__global__ void __launch_bounds__(kThreads) long_lists_kernel(std::int64_t rows, TapLists lists) {
  __shared__ int scratch[kThreads / 32];
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads; first < rows; first += stride) {
    const std::int64_t own = first + threadIdx.x;
    const int is_long = own < rows && lists.begin[own + 1] - lists.begin[own] >= kLong ? 1 : 0;
    if (block_reduce(is_long, Sum(), scratch) == 0) continue;
    for (std::int64_t row = first; row < rows && row < first + kThreads; ++row) {
      const int begin = lists.begin[row];
      const int count = lists.begin[row + 1] - begin;
      if (count >= kLong) sort_list(lists.entries + begin, count, static_cast<int>(threadIdx.x), kThreads, BlockSync());
    }
  }
}

void make_lists(const GridProblem& p, const Chunk& c, std::int64_t points, std::int64_t rows, const float* grid,
                const TapLists& lists, cudaStream_t stream) {
  NEAP_CHECK_CUDA(cudaMemsetAsync(lists.cursor, 0, static_cast<std::size_t>(rows) * sizeof(int), stream));
  each("grid_sample_counts", points, stream, [=] __device__(std::int64_t t) {
    const PointTaps taps = p.taps(grid, t);
    int* counts = lists.cursor + t / p.points * p.pixels();
    for (int tap = 0; tap < taps.count(); ++tap) atomicAdd(&counts[taps.pixel(tap)], 1);
  });
  begin_lists(rows, lists.begin, lists.cursor, stream);
  each("grid_sample_entries", points, stream, [=] __device__(std::int64_t t) {
    const PointTaps taps = p.taps(grid, t);
    int* cursor = lists.cursor + t / p.points * p.pixels();
    for (int tap = 0; tap < taps.count(); ++tap) {
      const int entry = static_cast<int>(t) * c.taps + tap;
      lists.entries[atomicAdd(&cursor[taps.pixel(tap)], 1)] = entry;
      lists.weights[entry] = taps.weight(tap);
    }
  });
  short_lists_kernel<<<blocks_for(rows * 32), kThreads, 0, stream>>>(rows, lists);
  long_lists_kernel<<<blocks_for(rows), kThreads, 0, stream>>>(rows, lists);
  check_launch("grid_sample_lists");
}

void run_backward(const Buffers& b, cudaStream_t stream, const GridProblem& p, const Chunk& c) {
  const TapLists lists(c, b.workspace);
  for (std::int64_t image = 0; image < p.n; image += c.images) {
    const std::int64_t images = p.n - image < c.images ? p.n - image : c.images;
    const std::int64_t rows = images * p.pixels();
    if (rows == 0 || p.channels == 0) return;
    make_lists(p, c, images * p.points, rows, b.in<float>(1) + image * p.points * p.space, lists, stream);
    const auto* dy = b.in<float>(0) + image * p.points * p.channels;
    auto* dx = b.out<float>(0) + image * p.pixels() * p.channels;
    each("grid_sample_grad", rows * p.channels, stream, [=] __device__(std::int64_t i) {
      const std::int64_t row = i / p.channels;
      float sum = 0;
      for (int k = lists.begin[row]; k < lists.begin[row + 1]; ++k) {
        const int entry = lists.entries[k];
        sum += lists.weights[entry] * dy[entry / c.taps * p.channels + i % p.channels];
      }
      dx[i] = sum;
    });
  }
}

}  // namespace

Prepared grid_sample_cuda(const OpCall& call) {
  return cuda_kernel([p = grid_problem(call.shape(0), call.shape(1), call.attrs)](
                         const Buffers& b, cudaStream_t stream) { run_forward(b, stream, p); });
}

Prepared grid_sample_grad_cuda(const OpCall& call) {
  const GridProblem problem = grid_problem(call.outputs[0].shape, call.shape(1), call.attrs);
  const Chunk chunk(problem);
  if (!chunk.fits()) return Declined{"an image has more taps or pixels than 31 bits count"};
  return cuda_kernel([p = problem, c = chunk](const Buffers& b, cudaStream_t stream) { run_backward(b, stream, p, c); },
                     TapLists::bytes(chunk));
}

}  // namespace neap::ops

// top_k: a block a line. It finds the key of the k-th best bit by bit, gathers the k best and sorts their places.
#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "device/cuda/floats.cuh"
#include "device/cuda/rank.cuh"
#include "ops/cuda_kernel.h"
#include "ops/elementwise/element.h"
#include "ops/top_k/top_k.h"

namespace neap::ops {
namespace {

// Unsigned keys, larger for what is better: equal numbers (both zeros, say) have equal keys, NaN the largest.
template <class Bits>
__device__ Bits key_of_bits(Bits bits, bool largest) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  const Bits rising = (bits & kSign) != 0 ? ~bits : bits | kSign;
  return largest ? rising : ~rising;
}
__device__ std::uint32_t key_of(float x, bool largest) {
  if (x != x) return std::numeric_limits<std::uint32_t>::max();
  return key_of_bits<std::uint32_t>(__float_as_uint(x == 0 ? 0.0F : x), largest);
}
__device__ std::uint64_t key_of(double x, bool largest) {
  if (x != x) return std::numeric_limits<std::uint64_t>::max();
  return key_of_bits(static_cast<std::uint64_t>(__double_as_longlong(x == 0 ? 0.0 : x)), largest);
}
__device__ std::uint32_t key_of(__half x, bool largest) { return key_of(__half2float(x), largest); }
__device__ std::uint32_t key_of(Bf16 x, bool largest) { return key_of(widen(x), largest); }
template <class T>
requires std::is_integral_v<T> __device__ auto key_of(T x, bool largest) {
  using Key = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  constexpr Key kSign = std::is_signed_v<T> ? Key{1} << (8 * sizeof(Key) - 1) : 0;
  const Key rising = static_cast<Key>(x) ^ kSign;
  return largest ? rising : ~rising;
}

template <class T>
struct LineKeys {
  const T* x;
  std::int64_t stride;
  bool largest;
  __device__ auto operator()(std::int64_t i) const { return key_of(x[i * stride], largest); }
};

constexpr int kNobody = -1;  // comes behind all places

template <class Keys>
__device__ bool comes_before(const Keys& keys, int p, int q) {
  if (p == kNobody || q == kNobody) return p != kNobody && q == kNobody;
  const auto a = keys(p);
  const auto b = keys(q);
  return a > b || (a == b && p < q);
}

struct Scratch {
  long long sums[32];
  int counts[32];
  int above;
};

// The places of the k best, in any order; of those as good as the k-th the first ones.
template <class Keys>
__device__ void gather_best(const TopKLines& s, const Keys& keys, int* order, Scratch& scratch) {
  using Key = decltype(keys(0));
  const Key least = threshold(s.width, s.k, Key{1} << (8 * sizeof(Key) - 1), keys, scratch.sums);
  long long better = 0;
  for (std::int64_t i = threadIdx.x; i < s.width; i += blockDim.x) better += keys(i) > least ? 1 : 0;
  const auto above = static_cast<int>(block_reduce(better, Sum(), scratch.sums));
  if (threadIdx.x == 0) scratch.above = 0;
  __syncthreads();
  int next = above;  // place in `order` of the next one that is as good as the k-th
  for (std::int64_t first = 0; first < s.width; first += blockDim.x) {
    const std::int64_t i = first + threadIdx.x;
    const Key own = i < s.width ? keys(i) : Key{0};
    const bool is_equal = i < s.width && own == least;
    const bool is_above = i < s.width && own > least;
    const Prefix equals = block_prefix(is_equal ? 1 : 0, scratch.counts);
    if (is_equal && next + equals.before < s.k) order[next + equals.before] = static_cast<int>(i);
    if (is_above) order[atomicAdd(&scratch.above, 1)] = static_cast<int>(i);
    next += equals.all;
  }
}

// Bitonic; `padded` is a power of two.
template <class Keys>
__device__ void sort(const Keys& keys, int* order, int padded) {
  for (int size = 2; size <= padded; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      for (int i = static_cast<int>(threadIdx.x); i < padded / 2; i += static_cast<int>(blockDim.x)) {
        const int low = i / step * 2 * step + i % step;
        const int p = order[low];
        const int q = order[low + step];
        const bool rises = (low & size) == 0;
        if (rises ? comes_before(keys, q, p) : comes_before(keys, p, q)) {
          order[low] = q;
          order[low + step] = p;
        }
      }
      __syncthreads();
    }
  }
}

// `orders`: room for each block's places; null when the block's own memory has room for them.
template <class T>
__global__ void __launch_bounds__(1024)
    top_k_kernel(TopKLines s, const T* x, T* values, std::int64_t* indices, int* orders, int padded) {
  extern __shared__ int own_order[];
  __shared__ Scratch scratch;
  int* order = orders != nullptr ? orders + static_cast<std::int64_t>(blockIdx.x) * padded : own_order;
  for (std::int64_t line = blockIdx.x; line < s.outer * s.inner; line += gridDim.x) {
    const std::int64_t row = line / s.inner;
    const std::int64_t column = line % s.inner;
    const LineKeys<T> keys{x + row * s.width * s.inner + column, s.inner, s.largest};
    for (int i = static_cast<int>(s.k + threadIdx.x); i < padded; i += static_cast<int>(blockDim.x)) order[i] = kNobody;
    gather_best(s, keys, order, scratch);
    __syncthreads();
    sort(keys, order, padded);
    for (std::int64_t i = threadIdx.x; i < s.k; i += blockDim.x) {
      const std::int64_t to = (row * s.k + i) * s.inner + column;
      if (values != nullptr) values[to] = keys.x[order[i] * s.inner];
      if (indices != nullptr) indices[to] = order[i];
    }
    __syncthreads();
  }
}

constexpr std::int64_t kInBlock = 4096;       // places that a block sorts in its own memory
constexpr std::int64_t kBlocksOutside = 256;  // that sort in the workspace

struct Cut {
  std::int64_t padded, blocks;
  unsigned threads = 32;

  explicit Cut(const TopKLines& s)
      : padded(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(s.k)))),
        blocks(std::min(s.outer * s.inner, padded <= kInBlock ? kMostBlocks : kBlocksOutside)) {
    while (threads < 1024 && 4 * threads < s.width) threads *= 2;
  }
  std::int64_t order_bytes() const { return padded * static_cast<std::int64_t>(sizeof(int)); }
  std::int64_t workspace() const { return padded <= kInBlock ? 0 : blocks * order_bytes(); }
};

template <class T>
void run(const Buffers& b, cudaStream_t stream, const TopKLines& s, const Cut& cut) {
  if (s.k == 0 || s.outer * s.inner == 0) return;
  const bool is_outside = cut.workspace() > 0;
  const auto shared = static_cast<std::size_t>(is_outside ? 0 : cut.order_bytes());
  top_k_kernel<T><<<static_cast<unsigned>(cut.blocks), cut.threads, shared, stream>>>(
      s, b.in<T>(0), wanted_out<T>(b, 0), wanted_out<std::int64_t>(b, 1),
      is_outside ? reinterpret_cast<int*>(b.workspace) : nullptr, static_cast<int>(cut.padded));
  check_launch("top_k");
}

// Floats of 16 bits as a kernel knows them.
template <class T>
struct OnDevice {
  using Type = T;
};
template <>
struct OnDevice<F16> {
  using Type = __half;
};
template <>
struct OnDevice<BF16> {
  using Type = Bf16;
};

}  // namespace

Prepared top_k_cuda(const TopKLines& lines, DType type) {
  if (lines.width > (std::int64_t{1} << 30)) return Declined{"lines of at most 2^30 elements"};
  return with_type(type, [&]<class T>(Type<T>) {
    const Cut cut(lines);
    return cuda_kernel(
        [s = lines, cut](const Buffers& b, cudaStream_t stream) { run<typename OnDevice<T>::Type>(b, stream, s, cut); },
        cut.workspace());
  });
}

}  // namespace neap::ops

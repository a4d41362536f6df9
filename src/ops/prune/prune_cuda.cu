// Pruning by magnitude. A mask is found in one step of a run, so a single block may take its time over a share; all
// counts are of integers, in any order the same.
#include "device/cuda/count.cuh"
#include "ops/cuda_kernel.h"
#include "ops/prune/prune.h"
#include "ops/prune/prune_kernels.h"

namespace neap::ops {
namespace {

constexpr int kBlock = 1024;

__device__ std::uint32_t magnitude(float w) { return __float_as_uint(w) & 0x7FFFFFFFU; }

// Whether there is anything to do in this run, and whether the mask is found in it. No key: both.
struct When {
  const std::uint64_t* key;
  const float* hyper;
  std::uint64_t from;

  __device__ bool is_on() const { return key == nullptr || (hyper[7] != 0 && key[1] >= from); }
  __device__ bool is_first() const { return key == nullptr || (hyper[7] != 0 && key[1] == from); }
};

struct Pattern {
  PruneShape s;
  std::int64_t keep, of;
};

// Is weight i among the `keep` largest of its group? Of equals the first stay.
__device__ bool stays(const Pattern& p, const float* weight, std::int64_t i) {
  const std::int64_t inside = i / p.s.inner % p.s.in % p.of;
  const std::int64_t first = i - inside * p.s.inner;
  const std::uint32_t own = magnitude(weight[i]);
  std::int64_t before = 0;
  for (std::int64_t k = 0; k < p.of; ++k) {
    const std::uint32_t other = magnitude(weight[first + k * p.s.inner]);
    before += other > own || (other == own && k < inside) ? 1 : 0;
  }
  return before < p.keep;
}

void find_pattern(const Pattern& p, const When& when, const float* weight, std::uint8_t* bits, cudaStream_t stream) {
  const std::int64_t elements = p.s.elements();
  each("prune", (elements + 7) / 8, stream, [=] __device__(std::int64_t byte) {
    if (!when.is_first()) return;
    unsigned kept = 0;
    for (std::int64_t i = 8 * byte; i < 8 * byte + 8 && i < elements; ++i) {
      kept |= stays(p, weight, i) ? 1U << (i - 8 * byte) : 0;
    }
    bits[byte] = static_cast<std::uint8_t>(kept);
  });
}

// Of all threads.
__device__ long long block_count(long long own, long long* scratch) { return block_reduce(own, Sum(), scratch); }

// The largest magnitude that at least `count` weights reach, bit by bit from the highest.
__device__ std::uint32_t threshold(const float* weight, std::int64_t elements, std::int64_t count, long long* scratch) {
  std::uint32_t found = 0;
  for (std::uint32_t bit = 1U << 30; bit != 0; bit >>= 1) {
    const std::uint32_t tried = found | bit;
    long long reach = 0;
    for (std::int64_t i = threadIdx.x; i < elements; i += kBlock) reach += magnitude(weight[i]) >= tried ? 1 : 0;
    if (block_count(reach, scratch) >= count) found = tried;
  }
  return found;
}

// One block. What is as large as the threshold stays from the first on, until there are enough.
__global__ void __launch_bounds__(kBlock)
    share_kernel(When when, std::int64_t elements, std::int64_t count, const float* weight, std::uint8_t* bits) {
  __shared__ long long sums[kBlock / 32];
  __shared__ int counts[kBlock / 32];
  if (!when.is_first()) return;
  const std::uint32_t least = threshold(weight, elements, count, sums);
  long long above = 0;
  for (std::int64_t i = threadIdx.x; i < elements; i += kBlock) above += magnitude(weight[i]) > least ? 1 : 0;
  std::int64_t left = count - block_count(above, sums);
  for (std::int64_t first = 0; first < elements; first += 8 * kBlock) {
    const std::int64_t own = first + 8 * static_cast<std::int64_t>(threadIdx.x);
    int equal = 0;
    for (std::int64_t i = own; i < own + 8 && i < elements; ++i) equal += magnitude(weight[i]) == least ? 1 : 0;
    int all = 0;
    std::int64_t rank = count_before(equal, counts, all);
    unsigned kept = 0;
    for (std::int64_t i = own; i < own + 8 && i < elements; ++i) {
      const std::uint32_t m = magnitude(weight[i]);
      const bool is_equal = m == least;
      if (m > least || (is_equal && rank < left)) kept |= 1U << (i - own);
      rank += is_equal ? 1 : 0;
    }
    if (own < elements) bits[own / 8] = static_cast<std::uint8_t>(kept);
    left = left > all ? left - all : 0;
  }
}

void find(const PruneRule& rule, const PruneShape& s, const When& when, const float* weight, std::uint8_t* bits,
          cudaStream_t stream) {
  if (s.elements() == 0) return;
  if (rule.of > 0) return find_pattern({s, rule.keep, rule.of}, when, weight, bits, stream);
  share_kernel<<<1, kBlock, 0, stream>>>(when, s.elements(), kept_by_share(rule.share, s.elements()), weight, bits);
  check_launch("prune");
}

}  // namespace

Prepared prune_cuda(const OpCall& call) {
  const PruneRule rule = PruneRule::from(call.attrs);
  const PruneShape shape = PruneShape::of(call.shape(0), call.attrs.integer("axis", -1));
  return cuda_kernel(
      [rule, shape](const Buffers& b, cudaStream_t stream) {
        auto* bits = reinterpret_cast<std::uint8_t*>(b.workspace);
        const auto* weight = b.in<float>(0);
        auto* out = b.out<float>(0);
        find(rule, shape, {}, weight, bits, stream);
        each("prune", shape.elements(), stream,
             [=] __device__(std::int64_t i) { out[i] = (bits[i / 8] >> (i % 8) & 1) != 0 ? weight[i] : 0; });
      },
      (shape.elements() + 7) / 8);
}

Prepared prune_update_cuda(const OpCall& call) {
  const PruneRule rule = PruneRule::from(call.attrs);
  const PruneShape shape = PruneShape::of(call.shape(0), call.attrs.integer("axis", -1));
  return cuda_kernel([rule, shape, from = static_cast<std::uint64_t>(call.attrs.integer("from"))](const Buffers& b,
                                                                                                  cudaStream_t stream) {
    const When when{b.in<std::uint64_t>(2), b.in<float>(3), from};
    auto* bits = b.state<std::uint8_t>(1);
    auto* weight = b.state<float>(0);
    find(rule, shape, when, weight, bits, stream);
    each("prune_update", shape.elements(), stream, [=] __device__(std::int64_t i) {
      if (when.is_on() && (bits[i / 8] >> (i % 8) & 1) == 0) weight[i] = 0;
    });
  });
}

}  // namespace neap::ops

// Part of codec_cuda.cu: encoding. Sixteen lanes have a group and sixteen of its elements each, four neighbours at a
// time; its sixteen Philox blocks pass from lane to lane by shared memory. A warp takes sixteen groups, two at a time,
// since sixteen share a block of common bytes.
#pragma once

#include "device/cuda/launch.cuh"
#include "device/cuda/random.cuh"
#include "precision/codec_gpu.cuh"

namespace neap::precision {

inline constexpr int kRun = 16;  // elements of a lane in a group
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kGroupsOfWarp = 16;

// What the host says of a step, on the device.
struct StepKey {
  std::uint64_t seed;
  std::uint64_t step;
  std::uint64_t is_stochastic;
};

// precision::philox_key
__device__ inline std::uint64_t key_of(const StepKey& key, std::uint64_t tensor) {
  return device_mix(device_mix(device_mix(0x636F646563ULL, key.seed), key.step), tensor);
}

struct Call {
  const float* src;
  std::int64_t elements;
  std::byte* payload;
  float2* history;
  const StepKey* key;
  std::uint64_t tensor;
  unsigned* flags;
};

struct Grid {
  float lo, hi, scale, factor;
  unsigned flags;
};

// NaN wins.
__device__ inline float least_of(float a, float b) {
  float out;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return out;
}
__device__ inline float greatest_of(float a, float b) {
  float out;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return out;
}

// Sixteen lanes, those of `lanes`, agree on it.
template <int kSteps>
__device__ Grid make_grid(const float (&x)[kRun], unsigned lanes) {
  float lo = x[0];
  float hi = x[0];
#pragma unroll
  for (int k = 1; k < kRun; ++k) {
    lo = least_of(lo, x[k]);
    hi = greatest_of(hi, x[k]);
  }
#pragma unroll
  for (int step = 8; step > 0; step /= 2) {
    lo = least_of(lo, __shfl_xor_sync(lanes, lo, step));
    hi = greatest_of(hi, __shfl_xor_sync(lanes, hi, step));
  }
  lo += 0.0F;  // -0 becomes 0
  hi += 0.0F;
  const float range = hi - lo;
  if (!(range <= kMaxRange)) {
    unsigned why = not_finite(x);
    for (int step = 8; step > 0; step /= 2) why |= __shfl_xor_sync(lanes, why, step);
    return {0, 0, 0, 0, why != 0 ? why : kOverflow};
  }
  if (range == 0) return {lo, hi, 0, 0, kClean};
  const float exact = range / static_cast<float>(kSteps);
  const float scale = fmaxf(exact, kMinScale);
  return {lo, hi, scale, kFine / scale, exact < kMinScale ? kUnderflow : 0U};
}

// Of lane L of a group: elements 64 i + 4 L + c in x[4 i + c].
template <bool kWhole>
__device__ void load(const float* src, int left, int lane, float (&x)[kRun]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int at = 64 * i + 4 * lane;
    if constexpr (kWhole) {
      const float4 v = *reinterpret_cast<const float4*>(src + at);
      x[4 * i] = v.x, x[4 * i + 1] = v.y, x[4 * i + 2] = v.z, x[4 * i + 3] = v.w;
    } else {
      for (int c = 0; c < 4; ++c) x[4 * i + c] = src[at + c < left ? at + c : 0];
    }
  }
}

// Bytes of a payload of n elements: INT4 is padded to 32 of them, bits to 8.
template <int kSteps>
__device__ int bytes_of(int n) {
  return kSteps == 255 ? n : kSteps == 15 ? (n + 31) / 32 * 16 : (n + 7) / 8;
}

// The bytes of `word` to place `at` of a payload that ends at `end`.
template <bool kWhole>
__device__ void store(std::uint8_t* to, int at, std::uint32_t word, int end) {
  if constexpr (kWhole) {
    *reinterpret_cast<std::uint32_t*>(to + at) = word;
  } else {
    for (int i = 0; i < 4; ++i) {
      if (at + i < end) to[at + i] = static_cast<std::uint8_t>(word >> (8 * i));
    }
  }
}

// A lane's steps, four to a word as bytes, into the payload of the group.
template <int kSteps, bool kWhole>
__device__ void put(const std::uint32_t (&q)[4], int lane, unsigned lanes, std::uint8_t* to, int end) {
  if constexpr (kSteps == 255) {
#pragma unroll
    for (int i = 0; i < 4; ++i) store<kWhole>(to, 64 * i + 4 * lane, q[i], end);
  } else if constexpr (kSteps == 15) {
    // Lanes L and L ^ 4 have the two halves of the same bytes: each completes two words.
    const bool is_high = (lane & 4) != 0;
    const std::uint32_t first = __shfl_xor_sync(lanes, is_high ? q[0] : q[2], 4);
    const std::uint32_t second = __shfl_xor_sync(lanes, is_high ? q[1] : q[3], 4);
    const int i = is_high ? 2 : 0;
    const int at = 32 * i + lane / 8 * 16 + lane % 4 * 4;
    store<kWhole>(to, at, is_high ? first | (q[2] << 4) : q[0] | (first << 4), end);
    store<kWhole>(to, at + 32, is_high ? second | (q[3] << 4) : q[1] | (second << 4), end);
  } else {
    std::uint32_t bits = 0;  // four of each word
#pragma unroll
    for (int i = 0; i < 4; ++i) bits |= ((q[i] * 0x10204080U) >> 28 & 15U) << (8 * i);
    bits |= __shfl_xor_sync(lanes, bits, 1) << 4;
    // Byte i of even lane 2 p belongs to place 8 i + p: four such lanes exchange bytes, and each has a word.
    std::uint32_t other = __shfl_xor_sync(lanes, bits, 2);
    bits = __byte_perm(bits, other, (lane & 2) == 0 ? 0x6240 : 0x3715);
    other = __shfl_xor_sync(lanes, bits, 4);
    bits = __byte_perm(bits, other, (lane & 4) == 0 ? 0x5410 : 0x3276);
    if (lane % 2 == 0) store<kWhole>(to, lane / 2 % 4 * 8 + lane / 8 * 4, bits, end);
  }
}

// Is there a value between the two that one bit can say?
template <bool kWhole>
__device__ bool is_between(const float (&x)[kRun], const Grid& grid, int lane, int left) {
  bool any = false;
#pragma unroll
  for (int k = 0; k < kRun; ++k) {
    const bool is_there = kWhole || 64 * (k / 4) + 4 * lane + k % 4 < left;
    any = any || (is_there && x[k] != grid.lo && x[k] != grid.hi);
  }
  return any;
}

// `own` has the sixteen Philox blocks of the group; `known` are the flags that need not be found again.
template <int kSteps, bool kWhole>
__device__ unsigned encode_group(const Call& c, std::int64_t group, int lane, unsigned lanes, const uint4* own,
                                 std::uint32_t common, unsigned known) {
  constexpr float kTop = static_cast<float>(kSteps) * kFine;
  const int left = kWhole ? static_cast<int>(kGroup) : static_cast<int>(c.elements - group * kGroup);
  float x[kRun];
  load<kWhole>(c.src + group * kGroup, left, lane, x);
  const Grid grid = make_grid<kSteps>(x, lanes);
  unsigned flags = grid.flags;
  if constexpr (kSteps == 1) {
    if ((known & kInexact) == 0 && is_between<kWhole>(x, grid, lane, left)) flags |= kInexact;
  }
  // Byte L / 4 of a word above the common byte, zeros above both.
  const auto selector = static_cast<std::uint32_t>(0x5504 | (lane / 4) << 4);
  std::uint32_t places[kRun];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const uint4 row = own[lane % 4 * 4 + k];
    const std::uint32_t words[4] = {row.x, row.y, row.z, row.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float value = x[4 * i + k];
      const float fine = (value - grid.lo) * grid.factor;
      places[4 * i + k] = __float2uint_rn(fminf(fine, kTop)) + __byte_perm(words[i], common, selector);
      if constexpr (!kWhole) {
        if (64 * i + 4 * lane + k >= left) places[4 * i + k] = 0;
      }
    }
  }
  std::uint32_t q[4];  // byte 2 of each place
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t low = __byte_perm(places[4 * i], places[4 * i + 1], 0x0062);
    const std::uint32_t high = __byte_perm(places[4 * i + 2], places[4 * i + 3], 0x0062);
    q[i] = __byte_perm(low, high, 0x5410);
  }
  constexpr int kBytes = kSteps == 255 ? 256 : kSteps == 15 ? 128 : 32;
  put<kSteps, kWhole>(q, lane, lanes, reinterpret_cast<std::uint8_t*>(c.payload) + group * kBytes,
                      bytes_of<kSteps>(left));
  if (lane == 0) c.history[group] = {grid.lo, kSteps == 1 ? grid.hi : grid.scale};
  return flags;
}

template <int kSteps>
__global__ void __launch_bounds__(kThreads) encode_kernel(const __grid_constant__ Call c) {
  __shared__ uint4 own[kWarps][2][16];
  const int lane = static_cast<int>(threadIdx.x) % 16;
  const int half = static_cast<int>(threadIdx.x) % 32 / 16;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const unsigned lanes = 0xFFFFU << (16 * half);
  const std::int64_t whole = c.elements / kGroup;
  const std::int64_t groups = (c.elements + kGroup - 1) / kGroup;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kWarps * kGroupsOfWarp;
  const Draw draw{key_of(*c.key, c.tensor), c.key->is_stochastic != 0};
  unsigned flags = 0;
  for (std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kWarps + warp) * kGroupsOfWarp; first < groups;
       first += stride) {
    const uint4 shared = draw.block(static_cast<std::uint64_t>(first / 16), kSharedStream);
    const std::uint32_t words[4] = {shared.x, shared.y, shared.z, shared.w};
#pragma unroll 1
    for (int i = 0; i < kGroupsOfWarp; i += 2) {
      const std::int64_t group = first + i + half;
      const std::uint32_t word = i < 8 ? (i < 4 ? words[0] : words[1]) : (i < 12 ? words[2] : words[3]);
      const std::uint32_t common = draw.is_stochastic ? word >> (8 * (i % 4 + half)) & 0xFFU : 0U;
      own[warp][half][lane] = draw.is_stochastic ? draw.block(static_cast<std::uint64_t>(group) * 16 + lane, kOwnStream)
                                                 : uint4{0x80808080U, 0x80808080U, 0x80808080U, 0x80808080U};
      __syncwarp();
      if (group < whole) {
        flags |= encode_group<kSteps, true>(c, group, lane, lanes, own[warp][half], common, flags);
      } else if (group < groups) {
        flags |= encode_group<kSteps, false>(c, group, lane, lanes, own[warp][half], common, flags);
      }
      __syncwarp();
    }
  }
  flags = __reduce_or_sync(0xFFFFFFFFU, flags);
  if (flags != 0 && threadIdx.x % 32 == 0) atomicOr(c.flags, flags);
}

// A warp has a group, a lane eight elements of it.
template <class Half>
__global__ void __launch_bounds__(kThreads) encode_half_kernel(const __grid_constant__ Call c) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t groups = (c.elements + kGroup - 1) / kGroup;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kWarps;
  auto* out = reinterpret_cast<std::uint16_t*>(c.payload);
  unsigned flags = 0;
  for (std::int64_t g = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; g < groups; g += stride) {
    const std::int64_t left = c.elements - g * kGroup;
    float x[8];
    std::uint32_t most = 0;
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const std::int64_t at = g * kGroup + 128 * part + 4 * lane;
      float4 v = {};
      if (left >= kGroup) {
        v = *reinterpret_cast<const float4*>(c.src + at);
      } else {
        float* each = &v.x;
        for (int i = 0; i < 4; ++i) each[i] = at + i < c.elements ? c.src[at + i] : 0.0F;
      }
      const float values[4] = {v.x, v.y, v.z, v.w};
      std::uint16_t h[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[4 * part + i] = values[i];
        most = max(most, __float_as_uint(values[i]) & 0x7FFFFFFFU);
        h[i] = Half::from(values[i]);
      }
      if (left >= kGroup) {
        const uint2 bits = {h[0] | (static_cast<std::uint32_t>(h[1]) << 16),
                            h[2] | (static_cast<std::uint32_t>(h[3]) << 16)};
        *reinterpret_cast<uint2*>(out + at) = bits;
      } else {
        for (int i = 0; i < 4; ++i) {
          if (at + i < c.elements) out[at + i] = h[i];
        }
      }
    }
    most = __reduce_max_sync(0xFFFFFFFFU, most);
    if (most >= Half::kOver) flags |= classify(x, Half::kOver);
    if (most != 0 && most < Half::kUnder) flags |= kUnderflow;
  }
  flags = __reduce_or_sync(0xFFFFFFFFU, flags);
  if (flags != 0 && lane == 0) atomicOr(c.flags, flags);
}

}  // namespace neap::precision

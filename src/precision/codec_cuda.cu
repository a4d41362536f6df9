// The codec on CUDA, bit for bit that of codec_ref.cc. Sixteen lanes have a group: lane r its elements r, r + 16, ...,
// whose random bytes are one Philox block. A warp takes sixteen groups, two at a time, since sixteen share a block of
// common bytes.
#include <cuda_fp16.h>

#include "device/cuda/launch.cuh"
#include "device/cuda/random.cuh"
#include "neap/error.h"
#include "precision/codec_format.h"
#include "precision/codec_gpu.cuh"
#include "precision/device_codec.h"

namespace neap::precision {
namespace {

constexpr int kRun = 16;  // elements of a lane in a group
constexpr int kWarps = kThreads / 32;
constexpr int kGroupsOfWarp = 16;

// What the host says of a step, on the device.
struct StepKey {
  std::uint64_t seed;
  std::uint64_t step;
  std::uint64_t is_stochastic;
};

// precision::philox_key
__device__ std::uint64_t key_of(const StepKey& key, std::uint64_t tensor) {
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

// Sixteen lanes agree on it. `greatest_bits`: of |x|, which tells NaN and infinities.
template <int kSteps>
__device__ Grid make_grid(const float (&x)[kRun]) {
  float lo = x[0];
  float hi = x[0];
  std::uint32_t most = 0;
#pragma unroll
  for (int k = 0; k < kRun; ++k) {
    lo = fminf(lo, x[k]);
    hi = fmaxf(hi, x[k]);
    most = max(most, __float_as_uint(x[k]) & 0x7FFFFFFFU);
  }
#pragma unroll
  for (int step = 8; step > 0; step /= 2) {
    lo = fminf(lo, __shfl_xor_sync(0xFFFFFFFFU, lo, step));
    hi = fmaxf(hi, __shfl_xor_sync(0xFFFFFFFFU, hi, step));
    most = max(most, __shfl_xor_sync(0xFFFFFFFFU, most, step));
  }
  lo += 0.0F;  // -0 becomes 0
  hi += 0.0F;
  const float range = hi - lo;
  if (most >= 0x7F800000U) return {0, 0, 0, 0, not_finite(x)};
  if (range > kMaxRange) return {0, 0, 0, 0, kOverflow};
  if (range == 0) return {lo, hi, 0, 0, kClean};
  const float exact = range / static_cast<float>(kSteps);
  const float scale = fmaxf(exact, kMinScale);
  return {lo, hi, scale, kFine / scale, exact < kMinScale ? kUnderflow : 0U};
}

__device__ void load(const Call& c, std::int64_t first, int lane, float (&x)[kRun]) {
  const float* src = c.src + first;
  const std::int64_t left = c.elements - first;
  if (left >= kGroup) {
#pragma unroll
    for (int k = 0; k < kRun; ++k) x[k] = src[lane + 16 * k];
    return;
  }
#pragma unroll
  for (int k = 0; k < kRun; ++k) x[k] = src[lane + 16 * k < left ? lane + 16 * k : 0];
}

// `q` of a lane, laid out in shared memory as in the payload.
template <int kSteps>
__device__ void put(const std::uint32_t (&q)[kRun], int lane, std::uint8_t* group) {
  if constexpr (kSteps == 255) {
#pragma unroll
    for (int k = 0; k < kRun; ++k) group[lane + 16 * k] = static_cast<std::uint8_t>(q[k]);
  } else if constexpr (kSteps == 15) {
#pragma unroll
    for (int k = 0; k < kRun; k += 2) group[lane + 8 * k] = static_cast<std::uint8_t>(q[k] | (q[k + 1] << 4));
  } else {
    const int half = static_cast<int>(threadIdx.x) % 32 / 16 * 16;
#pragma unroll
    for (int k = 0; k < kRun; ++k) {
      const std::uint32_t all = __ballot_sync(0xFFFFFFFFU, q[k] != 0) >> half;
      if (lane == k) reinterpret_cast<std::uint16_t*>(group)[k] = static_cast<std::uint16_t>(all);
    }
  }
}

template <int kSteps>
constexpr int kGroupBytes = kSteps == 255  ? 256
                            : kSteps == 15 ? 128
                                           : 32;

// Bytes of a payload of n elements: INT4 is padded to 32 of them, bits to 8.
template <int kSteps>
__device__ std::int64_t bytes_of(std::int64_t n) {
  return kSteps == 255 ? n : kSteps == 15 ? (n + 31) / 32 * 16 : (n + 7) / 8;
}

template <int kSteps>
__device__ void store(const Call& c, std::int64_t group, int lane, const std::uint8_t* from) {
  constexpr int kBytes = kGroupBytes<kSteps>;
  const std::int64_t left = c.elements - group * kGroup;
  auto* to = reinterpret_cast<std::uint8_t*>(c.payload) + group * kBytes;
  if (left >= kGroup) {
    using Word = std::conditional_t<kSteps == 255, uint4, std::conditional_t<kSteps == 15, uint2, std::uint16_t>>;
    reinterpret_cast<Word*>(to)[lane] = reinterpret_cast<const Word*>(from)[lane];
    return;
  }
  for (int i = lane; i < bytes_of<kSteps>(left); i += 16) to[i] = from[i];
}

template <int kSteps>
__device__ unsigned encode_group(const Call& c, std::int64_t group, int lane, const Draw& draw, std::uint32_t common,
                                 std::uint8_t* shared) {
  constexpr float kTop = static_cast<float>(kSteps) * kFine;
  const std::int64_t left = c.elements - group * kGroup;
  float x[kRun] = {};
  std::uint32_t q[kRun] = {};
  unsigned flags = 0;
  if (left > 0) load(c, group * kGroup, lane, x);
  const Grid grid = make_grid<kSteps>(x);
  if (left > 0) {
    flags = grid.flags;
    const uint4 own = draw.is_stochastic ? draw.block(static_cast<std::uint64_t>(group) * 16 + lane, kOwnStream)
                                         : uint4{0x80808080U, 0x80808080U, 0x80808080U, 0x80808080U};
    const std::uint32_t words[4] = {own.x, own.y, own.z, own.w};
    const std::uint32_t low = draw.is_stochastic ? common : 0;
#pragma unroll
    for (int k = 0; k < kRun; ++k) {
      const float fine = (x[k] - grid.lo) * grid.factor;
      const std::uint32_t place = __float2uint_rn(fine < kTop ? fine : kTop);
      const std::uint32_t add = (((words[k / 4] >> (k % 4 * 8)) & 0xFFU) << 8) | low;
      q[k] = min((place + add) >> 16, static_cast<std::uint32_t>(kSteps));
      const bool is_there = left >= kGroup || lane + 16 * k < left;
      if (!is_there) q[k] = 0;
      if (kSteps == 1 && is_there && x[k] != grid.lo && x[k] != grid.hi) flags |= kInexact;
    }
    if (lane == 0) c.history[group] = {grid.lo, kSteps == 1 ? grid.hi : grid.scale};
  }
  put<kSteps>(q, lane, shared);
  __syncwarp();
  if (left > 0) store<kSteps>(c, group, lane, shared);
  __syncwarp();
  return flags;
}

template <int kSteps>
__global__ void __launch_bounds__(kThreads) encode_kernel(const __grid_constant__ Call c) {
  __shared__ __align__(16) std::uint8_t shared[kWarps][2][kGroupBytes<kSteps>];
  const int lane = static_cast<int>(threadIdx.x) % 16;
  const int half = static_cast<int>(threadIdx.x) % 32 / 16;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t blocks = (c.elements + kGroupsOfWarp * kGroup - 1) / (kGroupsOfWarp * kGroup);
  const Draw draw{key_of(*c.key, c.tensor), c.key->is_stochastic != 0};
  unsigned flags = 0;
  for (std::int64_t b = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp; b < blocks;
       b += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    const uint4 common = draw.block(static_cast<std::uint64_t>(b), kSharedStream);
    const std::uint32_t words[4] = {common.x, common.y, common.z, common.w};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
#pragma unroll 1
      for (int i = 0; i < 4; i += 2) {
        const std::int64_t group = b * kGroupsOfWarp + 4 * w + i + half;
        const std::uint32_t byte = (words[w] >> (8 * (i + half))) & 0xFFU;
        flags |= encode_group<kSteps>(c, group, lane, draw, byte, shared[warp][half]);
      }
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

// Four elements a thread at a time, read and written side by side.
template <int kSteps>
__global__ void __launch_bounds__(kThreads)
    decode_kernel(const std::uint8_t* payload, const float2* history, std::int64_t n, float* dst) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; 4 * i < n; i += stride) {
    const std::int64_t first = 4 * i;
    const float2 p = history[first / kGroup];
    std::uint32_t q[4];
    if constexpr (kSteps == 255) {
      if (first + 4 <= n) {
        const std::uint32_t word = reinterpret_cast<const std::uint32_t*>(payload)[i];
        for (int k = 0; k < 4; ++k) q[k] = (word >> (8 * k)) & 0xFFU;
      } else {
        for (int k = 0; k < 4; ++k) q[k] = first + k < n ? payload[first + k] : 0U;
      }
    } else if constexpr (kSteps == 15) {
      const std::uint32_t word = *reinterpret_cast<const std::uint32_t*>(payload + first / 32 * 16 + first % 16);
      for (int k = 0; k < 4; ++k) q[k] = (word >> (8 * k + (first % 32 >= 16 ? 4 : 0))) & 15U;
    } else {
      const std::uint32_t byte = payload[first / 8];
      for (int k = 0; k < 4; ++k) q[k] = (byte >> (first % 8 + k)) & 1U;
    }
    float v[4];
    for (int k = 0; k < 4; ++k) {
      if constexpr (kSteps == 1) {
        v[k] = q[k] != 0 ? p.y : p.x;
      } else {
        v[k] = p.x + static_cast<float>(q[k]) * p.y;
      }
    }
    if (first + 4 <= n) {
      *reinterpret_cast<float4*>(dst + first) = {v[0], v[1], v[2], v[3]};
    } else {
      for (int k = 0; first + k < n; ++k) dst[first + k] = v[k];
    }
  }
}

template <class Half>
__global__ void __launch_bounds__(kThreads) decode_half_kernel(const std::uint16_t* src, std::int64_t n, float* dst) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; 4 * i < n; i += stride) {
    if (4 * i + 4 <= n) {
      const uint2 h = reinterpret_cast<const uint2*>(src)[i];
      reinterpret_cast<float4*>(dst)[i] = {Half::to(h.x & 0xFFFFU), Half::to(h.x >> 16), Half::to(h.y & 0xFFFFU),
                                           Half::to(h.y >> 16)};
    } else {
      for (std::int64_t k = 4 * i; k < n; ++k) dst[k] = Half::to(src[k]);
    }
  }
}

class CudaCodec final : public DeviceCodec {
 public:
  explicit CudaCodec(std::size_t places) : stream_(CudaContext::get().compute()), places_(places) {
    const std::size_t bytes = sizeof(StepKey) + places * sizeof(unsigned);
    NEAP_CHECK_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&host_), bytes, cudaHostAllocDefault));
    NEAP_CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&device_), bytes));
  }
  ~CudaCodec() override {
    cudaStreamSynchronize(stream_);
    cudaFree(device_);
    cudaFreeHost(host_);
  }
  CudaCodec(const CudaCodec&) = delete;
  CudaCodec& operator=(const CudaCodec&) = delete;

  void set_step(const CodecKey& key) override {
    *host_ = {key.seed, key.step, key.rounding == Rounding::kStochastic ? 1U : 0U};
  }

  void start() override {
    NEAP_CHECK_CUDA(cudaMemcpyAsync(device_, host_, sizeof(StepKey), cudaMemcpyHostToDevice, stream_));
    NEAP_CHECK_CUDA(cudaMemsetAsync(device_ + 1, 0, places_ * sizeof(unsigned), stream_));
  }

  void encode(Level level, const float* src, std::int64_t n, std::uint64_t tensor, std::byte* dst,
              std::size_t place) override {
    if (n == 0) return;
    require(is_aligned(src) && is_aligned(dst), "what is encoded lies at multiples of 16 bytes");
    const Call c{.src = src,
                 .elements = n,
                 .payload = dst,
                 .history = reinterpret_cast<float2*>(dst + history_offset(level, n)),
                 .key = device_,
                 .tensor = tensor,
                 .flags = reinterpret_cast<unsigned*>(device_ + 1) + place};
    const unsigned groups = grid_for((n + kGroup - 1) / kGroup, kWarps);
    const unsigned blocks = grid_for((n + kGroupsOfWarp * kGroup - 1) / (kGroupsOfWarp * kGroup), kWarps);
    switch (level) {
      case Level::kFp32:
        NEAP_CHECK_CUDA(cudaMemcpyAsync(dst, src, static_cast<std::size_t>(4 * n), cudaMemcpyDeviceToDevice, stream_));
        break;
      case Level::kFp16: encode_half_kernel<Fp16><<<groups, kThreads, 0, stream_>>>(c); break;
      case Level::kBf16: encode_half_kernel<Bf16Bits><<<groups, kThreads, 0, stream_>>>(c); break;
      case Level::kInt8: encode_kernel<255><<<blocks, kThreads, 0, stream_>>>(c); break;
      case Level::kInt4: encode_kernel<15><<<blocks, kThreads, 0, stream_>>>(c); break;
      case Level::kBit: encode_kernel<1><<<blocks, kThreads, 0, stream_>>>(c); break;
    }
    check_launch("encode");
  }

  void decode(Level level, const std::byte* src, std::int64_t n, float* dst) override {
    if (n == 0) return;
    require(is_aligned(src) && is_aligned(dst), "what is decoded lies at multiples of 16 bytes");
    const auto* payload = reinterpret_cast<const std::uint8_t*>(src);
    const auto* halves = reinterpret_cast<const std::uint16_t*>(src);
    const auto* history = reinterpret_cast<const float2*>(src + history_offset(level, n));
    const unsigned blocks = grid_for((n + 15) / 16, kThreads);
    switch (level) {
      case Level::kFp32:
        NEAP_CHECK_CUDA(cudaMemcpyAsync(dst, src, static_cast<std::size_t>(4 * n), cudaMemcpyDeviceToDevice, stream_));
        break;
      case Level::kFp16: decode_half_kernel<Fp16><<<blocks, kThreads, 0, stream_>>>(halves, n, dst); break;
      case Level::kBf16: decode_half_kernel<Bf16Bits><<<blocks, kThreads, 0, stream_>>>(halves, n, dst); break;
      case Level::kInt8: decode_kernel<255><<<blocks, kThreads, 0, stream_>>>(payload, history, n, dst); break;
      case Level::kInt4: decode_kernel<15><<<blocks, kThreads, 0, stream_>>>(payload, history, n, dst); break;
      case Level::kBit: decode_kernel<1><<<blocks, kThreads, 0, stream_>>>(payload, history, n, dst); break;
    }
    check_launch("decode");
  }

  void finish() override {
    NEAP_CHECK_CUDA(
        cudaMemcpyAsync(host_ + 1, device_ + 1, places_ * sizeof(unsigned), cudaMemcpyDeviceToHost, stream_));
  }
  unsigned flags(std::size_t place) const override { return reinterpret_cast<const unsigned*>(host_ + 1)[place]; }

 private:
  static bool is_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }
  static unsigned grid_for(std::int64_t work, int of_block) {
    const std::int64_t blocks = (work + of_block - 1) / of_block;
    return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
  }

  cudaStream_t stream_;
  std::size_t places_;
  StepKey* host_ = nullptr;  // pinned: the key, behind it the flags
  StepKey* device_ = nullptr;
};

}  // namespace

std::unique_ptr<DeviceCodec> make_cuda_codec(std::size_t places) { return std::make_unique<CudaCodec>(places); }

}  // namespace neap::precision

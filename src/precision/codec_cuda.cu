// The codec on CUDA, bit for bit that of codec_ref.cc.
#include "neap/error.h"
#include "precision/codec_encode.cuh"
#include "precision/device_codec.h"

namespace neap::precision {
namespace {

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

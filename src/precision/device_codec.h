// The codec (codec.h) where tensors lie on a device: the same bits, as work on the device's stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "precision/codec.h"

namespace neap::precision {

// For the encodings of one step. Blocks begin at multiples of 16 bytes.
class DeviceCodec {
 public:
  virtual ~DeviceCodec() = default;
  // On the host, before a step: what rounding draws from. The tensor in the key does not count.
  virtual void set_step(const CodecKey& key) = 0;

  // All of these are put on the stream, and can be captured. First start(); behind the last encoding finish().
  virtual void start() = 0;
  virtual void encode(Level level, const float* src, std::int64_t elements, std::uint64_t tensor, std::byte* dst,
                      std::size_t place) = 0;
  virtual void decode(Level level, const std::byte* src, std::int64_t elements, float* dst) = 0;
  virtual void finish() = 0;

  // EncodeFlags of an encoding, once the device has finished.
  virtual unsigned flags(std::size_t place) const = 0;
};

// `places`: how many encodings a step has. Null in a program without CUDA kernels.
[[gnu::weak]] std::unique_ptr<DeviceCodec> make_cuda_codec(std::size_t places);

}  // namespace neap::precision

// Products of bytes on a GPU: activations are made bytes, an image (or row) at a time, then the tensor cores sum tiles
// of 64 outputs by a panel of 64 channels, finding each window's bytes where they lie. Sums of integers are exact in
// any order, so that results are those of the reference, to the bit.
#include "core/bytes.h"
#include "ops/cuda_kernel.h"
#include "ops/int8/int8.h"
#include "ops/int8/int8_tile.cuh"

namespace neap::ops {
namespace {

constexpr std::int64_t kPart = 16 * 1024;  // numbers that a block takes

struct Range {
  float low = 0, high = 0, odd = 0;

  __device__ void add(float x) {
    low = x < low ? x : low;
    high = x > high ? x : high;
    odd += x * 0.0F;
  }
  __device__ void add(const Range& r) {
    low = r.low < low ? r.low : low;
    high = r.high > high ? r.high : high;
    odd += r.odd;
  }
};
struct Lowest {
  __device__ float operator()(float a, float b) const { return a < b ? a : b; }
};

// Of numbers [first, last) of x, by all threads of the block.
__device__ Range range_of(const float* x, std::int64_t first, std::int64_t last) {
  __shared__ float scratch[kThreads / 32];
  Range own;
  for (std::int64_t i = first + threadIdx.x; i < last; i += blockDim.x) own.add(x[i]);
  own.low = block_reduce(own.low, Lowest(), scratch);
  own.high = block_reduce(own.high, Largest(), scratch);
  own.odd = block_reduce(own.odd, Sum(), scratch);
  return own;
}

// The activations of a call: images of `pixels` with `in` channels each, which become `quads` words.
struct Images {
  std::int64_t count, pixels, in, quads;
  const float* x;
  Range* ranges;  // `parts()` an image
  Int8Bytes to;

  __device__ std::int64_t numbers() const { return pixels * in; }
  __device__ std::int64_t parts() const { return (numbers() + kPart - 1) / kPart; }
  __device__ void settle(std::int64_t image, const Range& all) const {
    const Int8Scale found = int8_scale(all.low, all.high, all.odd);
    to.scales[image] = found.scale;
    to.zeros[image] = found.zero;
  }
  // A word of an image: four bytes of one pixel, zeros behind the last channel.
  __device__ void write(std::int64_t image, std::int64_t word, const Int8Scale& s) const {
    const std::int64_t channel = word % quads * 4;
    const float* from = x + (image * pixels + word / quads) * in + channel;
    const float inverse = 1 / s.scale;
    std::uint32_t four = 0;
    for (int i = 0; i < 4 && channel + i < in; ++i) {
      four |= static_cast<std::uint32_t>(int8_byte(from[i], inverse, s.zero)) << (8 * i);
    }
    to.words[image * pixels * quads + word] = four;
  }
};

// A block an image.
__global__ void quantize_kernel(const __grid_constant__ Images m) {
  for (std::int64_t image = blockIdx.x; image < m.count; image += gridDim.x) {
    const Range all = range_of(m.x + image * m.numbers(), 0, m.numbers());
    const Int8Scale scale = int8_scale(all.low, all.high, all.odd);
    if (threadIdx.x == 0) m.settle(image, all);
    for (std::int64_t w = threadIdx.x; w < m.pixels * m.quads; w += blockDim.x) m.write(image, w, scale);
  }
}

// The same for images that are too large for a block: the ranges of their parts, those of all, and the bytes.
__global__ void ranges_kernel(const __grid_constant__ Images m) {
  for (std::int64_t i = blockIdx.x; i < m.count * m.parts(); i += gridDim.x) {
    const std::int64_t first = i % m.parts() * kPart;
    const std::int64_t last = first + kPart < m.numbers() ? first + kPart : m.numbers();
    const Range own = range_of(m.x + i / m.parts() * m.numbers(), first, last);
    if (threadIdx.x == 0) m.ranges[i] = own;
  }
}
struct Settle {
  Images m;
  __device__ void operator()(std::int64_t image) const {
    Range all;
    for (std::int64_t p = 0; p < m.parts(); ++p) all.add(m.ranges[image * m.parts() + p]);
    m.settle(image, all);
  }
};
struct Quantize {
  Images m;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t image = i / (m.pixels * m.quads);
    m.write(image, i % (m.pixels * m.quads), {m.to.scales[image], m.to.zeros[image]});
  }
};

unsigned some_blocks(std::int64_t wanted) { return static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks); }

void quantize(const Images& m, std::int64_t parts, cudaStream_t stream) {
  if (parts <= 1) {
    quantize_kernel<<<some_blocks(m.count), kThreads, 0, stream>>>(m);
    return check_launch("int8");
  }
  ranges_kernel<<<some_blocks(m.count * parts), kThreads, 0, stream>>>(m);
  check_launch("int8");
  each("int8", m.count, stream, Settle{m});
  each("int8", m.count * m.pixels * m.quads, stream, Quantize{m});
}

class CudaInt8 final : public Kernel {
 public:
  explicit CudaInt8(const ConvShape& s) : s_(s), weight_(int8_weight(s)) {
    pixels_ = s.d * s.h * s.w;
    parts_ = (pixels_ * s.c + kPart - 1) / kPart;
    words_at_ = book(s.n * pixels_ * weight_.quads() * 4);
    scales_at_ = book(s.n * 4);
    zeros_at_ = book(s.n * 4);
    ranges_at_ = book(parts_ > 1 ? s.n * parts_ * static_cast<std::int64_t>(sizeof(Range)) : 0);
  }
  std::int64_t workspace_bytes() const override { return bytes_; }

  void launch(const Buffers& b, Stream& stream) override {
    if (s_.n * s_.od * s_.oh * s_.ow * s_.o == 0) return;
    const cudaStream_t on = handle_of(stream);
    const Int8Bytes bytes{reinterpret_cast<std::uint32_t*>(b.workspace + words_at_),
                          reinterpret_cast<float*>(b.workspace + scales_at_),
                          reinterpret_cast<std::int32_t*>(b.workspace + zeros_at_)};
    quantize({.count = s_.n,
              .pixels = pixels_,
              .in = s_.c,
              .quads = weight_.quads(),
              .x = b.in<float>(0),
              .ranges = reinterpret_cast<Range*>(b.workspace + ranges_at_),
              .to = bytes},
             parts_, on);
    run_int8_tiles({.s = s_,
                    .weight = weight_,
                    .rows = s_.n * s_.od * s_.oh * s_.ow,
                    .x = bytes,
                    .packed = b.in<std::uint32_t>(1),
                    .scale = b.in<float>(2),
                    .sums = b.in<std::int32_t>(3),
                    .bias = b.in<float>(4),
                    .y = b.out<float>(0)},
                   on);
  }

 private:
  std::int64_t book(std::int64_t bytes) {
    const std::int64_t from = bytes_;
    bytes_ += align_up(bytes);
    return from;
  }

  ConvShape s_;
  Int8Weight weight_;
  std::int64_t pixels_ = 0, parts_ = 0;
  std::int64_t words_at_ = 0, scales_at_ = 0, zeros_at_ = 0, ranges_at_ = 0, bytes_ = 0;
};

// A block an output channel. What lies between channels and quads is 0 already.
__global__ void pack_kernel(const __grid_constant__ Int8Source s, const float* weight, std::int8_t* packed,
                            float* scales, std::int32_t* sums) {
  __shared__ float floats[kThreads / 32];
  __shared__ std::int32_t integers[kThreads / 32];
  const Int8Weight& w = s.weight;
  for (std::int64_t o = blockIdx.x; o < w.out; o += gridDim.x) {
    const float* from = weight + s.first(o);
    float largest = 0, odd = 0;
    for (std::int64_t i = threadIdx.x; i < w.taps * w.in; i += blockDim.x) {
      const float size = fabsf(from[i * s.step()]);
      largest = size > largest ? size : largest;
      odd += size * 0;
    }
    largest = block_reduce(largest, Largest(), floats);
    const float scale = int8_weight_scale(largest, block_reduce(odd, Sum(), floats));
    std::int32_t sum = 0;
    for (std::int64_t i = threadIdx.x; i < w.taps * w.in && scale == scale; i += blockDim.x) {
      const std::int32_t q = int8_weight_byte(from[i * s.step()], scale);
      packed[w.at(o, i / w.in, i % w.in)] = static_cast<std::int8_t>(q);
      sum += q;
    }
    sum = block_reduce(sum, Sum(), integers);
    if (threadIdx.x != 0) continue;
    scales[o] = scale;
    sums[o] = sum;
  }
}

void pack(const Int8Source& s, const Buffers& b, cudaStream_t stream) {
  const Int8Weight& w = s.weight;
  const std::int64_t bytes[] = {w.width() * w.taps * w.quads() * 4, w.width() * 4, w.width() * 4};
  for (std::size_t i = 0; i < 3; ++i) {
    NEAP_CHECK_CUDA(cudaMemsetAsync(b.outputs[i], 0, static_cast<std::size_t>(bytes[i]), stream));
  }
  if (w.out == 0) return;
  pack_kernel<<<some_blocks(w.out), kThreads, 0, stream>>>(s, b.in<float>(0), b.out<std::int8_t>(0), b.out<float>(1),
                                                           b.out<std::int32_t>(2));
  check_launch("pack_int8");
}

}  // namespace

Prepared int8_cuda(const ConvShape& s) { return std::make_unique<CudaInt8>(s); }

Prepared pack_int8_cuda(const Int8Source& source) {
  return cuda_kernel([s = source](const Buffers& b, cudaStream_t stream) { pack(s, b, stream); });
}

}  // namespace neap::ops

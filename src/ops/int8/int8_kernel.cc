// The fast kernel: activations are made bytes first, then tiles of outputs are summed straight from them, window by
// window, without a copy of what windows share.
#include <omp.h>

#include "core/bytes.h"
#include "ops/conv/conv_points.h"
#include "ops/int8/int8.h"
#include "ops/int8/int8_simd.h"

namespace neap::ops {
namespace {

constexpr std::int64_t kChunk = 8 * kInt8TileRows;  // outputs for which a panel stays in the L2 cache

class Int8Kernel final : public Kernel {
 public:
  Int8Kernel(const ConvShape& s, bool with_bias) : s_(s), weight_(int8_weight(s)), with_bias_(with_bias) {
    tile_ = int8_table().tile;
    if (int8_table().tile_vnni != nullptr && __builtin_cpu_supports("avx512vnni")) tile_ = int8_table().tile_vnni;
    pixel_ = 4 * weight_.quads();
    lines_ = s.n * s.d * s.h;
    std::int64_t at = 0;
    const auto book = [&](std::int64_t bytes) {
      const std::int64_t from = at;
      at += align_up(bytes);
      return from;
    };
    bytes_at_ = book(lines_ * s.w * pixel_);
    padding_at_ = book(s.n * pixel_);
    ranges_at_ = book(lines_ * static_cast<std::int64_t>(sizeof(Int8Range)));
    scales_at_ = book(s.n * 4);
    zeros_at_ = book(s.n * 4);
    workspace_ = at;
  }

  std::int64_t workspace_bytes() const override { return workspace_; }

  void launch(const Buffers& b, Stream& /*stream*/) override {
    if (s_.n * s_.od * s_.oh * s_.ow * s_.o == 0) return;
#pragma omp parallel
    {
      quantize_all(b);
      multiply_all(b);
    }
  }

 private:
  struct Scratch {
    std::uint8_t* bytes;
    std::uint8_t* padding;  // a pixel an image whose bytes mean 0
    Int8Range* ranges;
    float* scales;
    std::int32_t* zeros;
  };
  Scratch scratch(const Buffers& b) const {
    return {reinterpret_cast<std::uint8_t*>(b.workspace + bytes_at_),
            reinterpret_cast<std::uint8_t*>(b.workspace + padding_at_),
            reinterpret_cast<Int8Range*>(b.workspace + ranges_at_), reinterpret_cast<float*>(b.workspace + scales_at_),
            reinterpret_cast<std::int32_t*>(b.workspace + zeros_at_)};
  }

  // Scale and zero of an image from the ranges of its lines.
  void settle(const Scratch& to, std::int64_t image) const {
    const std::int64_t lines = s_.d * s_.h;
    Int8Range all = {0, 0, 0};
    for (std::int64_t l = image * lines; l < (image + 1) * lines; ++l) {
      all.low = std::min(all.low, to.ranges[l].low);
      all.high = std::max(all.high, to.ranges[l].high);
      all.odd += to.ranges[l].odd;
    }
    const Int8Scale found = int8_scale(all.low, all.high, all.odd);
    to.scales[image] = found.scale;
    to.zeros[image] = found.zero;
    std::fill_n(to.padding + image * pixel_, pixel_, static_cast<std::uint8_t>(found.zero));
  }

  void quantize_line(const Scratch& to, const float* x, std::int64_t line, std::int64_t image) const {
    int8_table().quantize(x + line * s_.w * s_.c, s_.w, s_.c, weight_.quads(), 1 / to.scales[image], to.zeros[image],
                          to.bytes + line * s_.w * pixel_);
  }

  void quantize_all(const Buffers& b) const {
    const Scratch to = scratch(b);
    const auto* x = b.in<float>(0);
    const std::int64_t lines = s_.d * s_.h;
#pragma omp for schedule(static)
    for (std::int64_t l = 0; l < lines_; ++l) {
      to.ranges[l] = int8_table().range(x + l * s_.w * s_.c, s_.w * s_.c);
      if (lines > 1) continue;
      settle(to, l);
      quantize_line(to, x, l, l);
    }
    if (lines == 1) return;
#pragma omp for schedule(static)
    for (std::int64_t n = 0; n < s_.n; ++n) settle(to, n);
#pragma omp for schedule(static)
    for (std::int64_t l = 0; l < lines_; ++l) quantize_line(to, x, l, l / lines);
  }

  // Where the bytes for every tap of outputs [first, first + rows) lie, tile by tile; and each output's scale and zero.
  struct Chunk {
    const std::uint8_t* from[kChunk * kMostTaps];
    float scale[kChunk];
    std::int32_t zero[kChunk];
  };
  void find(const Scratch& in, std::int64_t first, std::int64_t rows, Chunk& out) const {
    const ConvPoints p{s_};
    const std::int64_t plane = s_.od * s_.oh * s_.ow;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t image = (first + r) / plane;
      const std::int64_t at = (first + r) % plane;
      const Point to = {at / (s_.oh * s_.ow), at / s_.ow % s_.oh, at % s_.ow};
      out.scale[r] = in.scales[image];
      out.zero[r] = in.zeros[image];
      const std::uint8_t** row = out.from + r / kInt8TileRows * kInt8TileRows * weight_.taps + r % kInt8TileRows;
      const std::uint8_t* bytes = in.bytes + image * s_.d * s_.h * s_.w * pixel_;
      each_point(p.taps, [&](const Point& tap) {
        const Point from = p.from(to, tap);
        *row = from.is_in(p.in) ? bytes + from.at(p.in) * pixel_ : in.padding + image * pixel_;
        row += kInt8TileRows;
      });
    }
  }

  void multiply_all(const Buffers& b) const {
    const Scratch in = scratch(b);
    const std::int64_t rows = s_.n * s_.od * s_.oh * s_.ow;
    const std::int64_t chunks = (rows + kChunk - 1) / kChunk;
    const std::int64_t panels = weight_.panels();
    Chunk chunk;
    std::int64_t found = -1;
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < chunks * panels; ++i) {
      const std::int64_t first = i / panels * kChunk;
      const std::int64_t count = std::min(kChunk, rows - first);
      if (found != first) find(in, first, count, chunk);
      found = first;
      for (std::int64_t r = 0; r < count; r += kInt8TileRows) {
        multiply_tile(b, chunk, first, r, std::min(kInt8TileRows, count - r), i % panels);
      }
    }
  }

  void multiply_tile(const Buffers& b, const Chunk& chunk, std::int64_t first, std::int64_t r, std::int64_t rows,
                     std::int64_t panel) const {
    const std::int64_t o = panel * kInt8Panel;
    tile_({.from = chunk.from + r * weight_.taps,
           .taps = weight_.taps,
           .quads = weight_.quads(),
           .panel = b.in<std::int8_t>(1) + weight_.panel_at(panel),
           .lanes = weight_.lanes(panel),
           .columns = std::min(kInt8Panel, s_.o - o),
           .rows = rows,
           .row_scale = chunk.scale + r,
           .row_zero = chunk.zero + r,
           .scale = b.in<float>(2) + o,
           .sums = b.in<std::int32_t>(3) + o,
           .bias = with_bias_ ? b.in<float>(4) + o : nullptr,
           .y = b.out<float>(0) + (first + r) * s_.o + o,
           .stride = s_.o});
  }

  ConvShape s_;
  Int8Weight weight_;
  bool with_bias_;
  void (*tile_)(const Int8Tile&);
  std::int64_t pixel_, lines_;
  std::int64_t bytes_at_, padding_at_, ranges_at_, scales_at_, zeros_at_, workspace_;
};

}  // namespace

Prepared int8_simd(const ConvShape& s, bool with_bias) { return std::make_unique<Int8Kernel>(s, with_bias); }

}  // namespace neap::ops

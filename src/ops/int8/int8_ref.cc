#include <cmath>
#include <vector>

#include "ops/conv/conv_points.h"
#include "ops/int8/int8.h"

namespace neap::ops {
namespace {

struct Image {
  Int8Scale scale;
  std::vector<int> bytes;
};

Image quantized(const float* x, std::int64_t count) {
  float low = 0, high = 0, odd = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (x[i] < low) low = x[i];
    if (x[i] > high) high = x[i];
    odd += x[i] * 0.0F;
  }
  Image out{.scale = int8_scale(low, high, odd), .bytes = std::vector<int>(static_cast<std::size_t>(count))};
  if (std::isnan(out.scale.scale)) return out;  // so is every result
  const float inverse = 1 / out.scale.scale;
  for (std::int64_t i = 0; i < count; ++i) {
    out.bytes[static_cast<std::size_t>(i)] = int8_byte(x[i], inverse, out.scale.zero);
  }
  return out;
}

void convolve(const ConvShape& s, const Image& x, const Buffers& b, std::int64_t n) {
  const ConvPoints p{s};
  const Int8Weight weight = int8_weight(s);
  each_point(p.out, [&](const Point& to) {
    for (std::int64_t o = 0; o < s.o; ++o) {
      std::int32_t sum = 0;
      each_point(p.taps, [&](const Point& tap) {
        const Point from = p.from(to, tap);
        for (std::int64_t c = 0; c < s.c; ++c) {
          const int u = from.is_in(p.in) ? x.bytes[static_cast<std::size_t>(p.x_at(0, from) + c)] : x.scale.zero;
          sum += u * b.in<std::int8_t>(1)[weight.at(o, tap.at(p.taps), c)];
        }
      });
      const float scaled = int8_result(sum, x.scale.zero, b.in<std::int32_t>(3)[o], x.scale.scale, b.in<float>(2)[o]);
      b.out<float>(0)[p.y_at(n, to) + o] = b.in<float>(4) != nullptr ? scaled + b.in<float>(4)[o] : scaled;
    }
  });
}

}  // namespace

Prepared int8_ref(const ConvShape& s, bool /*with_bias*/) {
  return function_kernel([s](const Buffers& b) {
    const std::int64_t pixels = s.d * s.h * s.w * s.c;
    for (std::int64_t n = 0; n < s.n; ++n) convolve(s, quantized(b.in<float>(0) + n * pixels, pixels), b, n);
  });
}

}  // namespace neap::ops

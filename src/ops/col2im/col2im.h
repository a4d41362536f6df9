// Which element of the columns meets which of the image: for kernels on the CPU and on CUDA.
#pragma once

#include "device/both.h"
#include "ops/kernel.h"

namespace neap::ops {

struct WindowColumns {
  static constexpr int kMostAxes = 16;

  int axes = 0;
  std::int64_t image[kMostAxes], kernel[kMostAxes], strides[kMostAxes], dilations[kMostAxes], begins[kMostAxes],
      windows[kMostAxes];
  std::int64_t steps[kMostAxes];  // from one tap that meets a pixel to the next
  std::int64_t n = 0, channels = 0;
  std::int64_t taps = 1, count = 1, pixels = 1;  // of a window; windows; of an image

  NEAP_BOTH std::int64_t elements() const { return n * channels * taps * count; }
  NEAP_BOTH std::int64_t image_elements() const { return n * pixels * channels; }

  // The pixel that tap k of window l looks at; -1: outside.
  NEAP_BOTH std::int64_t pixel(std::int64_t k, std::int64_t l) const {
    std::int64_t at = 0;
    std::int64_t step = 1;
    for (int i = axes - 1; i >= 0; --i) {
      const std::int64_t place = l % windows[i] * strides[i] - begins[i] + k % kernel[i] * dilations[i];
      if (place < 0 || place >= image[i]) return -1;
      at += place * step;
      step *= image[i];
      l /= windows[i];
      k /= kernel[i];
    }
    return at;
  }

  // The element of the image that element e of the columns is a copy of; -1: outside.
  NEAP_BOTH std::int64_t source(std::int64_t e) const {
    const std::int64_t row = e / count;  // image, channel, tap
    const std::int64_t at = pixel(row % taps, e % count);
    return at < 0 ? -1 : (row / (taps * channels) * pixels + at) * channels + row / taps % channels;
  }

  // The sum of what the columns have of a pixel of image `i`, tap by tap. Along an axis every steps-th tap meets it.
  NEAP_BOTH float sum(const float* columns, std::int64_t i, std::int64_t channel, std::int64_t pixel) const {
    std::int64_t places[kMostAxes], firsts[kMostAxes], hits[kMostAxes];
    std::int64_t total = 1;
    for (int a = axes - 1; a >= 0; --a) {
      places[a] = pixel % image[a] + begins[a];
      pixel /= image[a];
      std::int64_t k = 0;
      while (k < steps[a] && (places[a] - k * dilations[a]) % strides[a] != 0) ++k;
      firsts[a] = k;
      hits[a] = k < steps[a] && k < kernel[a] ? (kernel[a] - 1 - k) / steps[a] + 1 : 0;
      total *= hits[a];
    }
    columns += (i * channels + channel) * taps * count;
    float sum = 0;
    for (std::int64_t hit = 0; hit < total; ++hit) {
      const std::int64_t at = column(places, firsts, hits, hit);
      if (at >= 0) sum += columns[at];
    }
    return sum;
  }

 private:
  // Tap and window of one hit as an element of the columns of a channel; -1: there is no such window.
  NEAP_BOTH std::int64_t column(const std::int64_t* places, const std::int64_t* firsts, const std::int64_t* hits,
                                std::int64_t hit) const {
    std::int64_t tap = 0, window = 0;
    std::int64_t tap_step = 1, window_step = 1;
    for (int a = axes - 1; a >= 0; --a) {
      const std::int64_t k = firsts[a] + hit % hits[a] * steps[a];
      const std::int64_t begin = places[a] - k * dilations[a];
      if (begin < 0 || begin / strides[a] >= windows[a]) return -1;
      tap += k * tap_step;
      window += begin / strides[a] * window_step;
      hit /= hits[a];
      tap_step *= kernel[a];
      window_step *= windows[a];
    }
    return tap * count + window;
  }
};

// Of a call with static shapes, for an image of this one.
WindowColumns window_columns(const OpCall& call, const Shape& image);

[[gnu::weak]] Prepared col2im_cuda(const OpCall& call);
[[gnu::weak]] Prepared im2col_cuda(const OpCall& call);

}  // namespace neap::ops

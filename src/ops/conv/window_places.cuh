// A convolution as a product: a row is an output position, a term a tap and a channel of the group.
#pragma once

#include "ops/conv/conv.h"

namespace neap::ops {

// Where the window of a row begins.
struct WindowRow {
  std::int64_t image, d, h, w;
};

// How far a term lies from there.
struct WindowTerm {
  std::int64_t tap, d, h, w;
  std::int64_t channel;  // within the group
};

__device__ inline WindowRow window_row(const ConvShape& s, std::int64_t row) {
  const std::int64_t w = row % s.ow;
  const std::int64_t h = row / s.ow % s.oh;
  const std::int64_t slab = row / (s.ow * s.oh);
  return {slab / s.od, slab % s.od * s.window.d.stride - s.window.d.pad_begin,
          h * s.window.h.stride - s.window.h.pad_begin, w * s.window.w.stride - s.window.w.pad_begin};
}

__device__ inline WindowTerm window_term(const ConvShape& s, std::int64_t term) {
  const std::int64_t channels = s.c / s.groups;
  const std::int64_t tap = term / channels;
  const std::int64_t w = tap % s.window.w.kernel;
  const std::int64_t h = tap / s.window.w.kernel % s.window.h.kernel;
  const std::int64_t d = tap / (s.window.w.kernel * s.window.h.kernel);
  return {tap, d * s.window.d.dilation, h * s.window.h.dilation, w * s.window.w.dilation, term % channels};
}

}  // namespace neap::ops

#include "ops/conv/conv_windows.h"

#include <omp.h>

#include <algorithm>
#include <cstring>

#include "core/bytes.h"
#include "device/cpu/gemm.h"

namespace neap::ops {
namespace {

// Every window is one pixel, and every pixel a window: x itself has the rows.
bool is_point(const ConvShape& s) {
  const auto plain = [](const WindowAxis& a) {
    return a.kernel == 1 && a.stride == 1 && a.pad_begin == 0 && a.pad_end == 0;
  };
  return plain(s.window.h) && plain(s.window.w);
}

std::int64_t rows_of(const ConvShape& s) { return s.n * s.oh * s.ow; }
std::int64_t columns_of(const ConvShape& s) { return s.window.h.kernel * s.window.w.kernel * s.c; }

// Calls visit(pixel of the image, tap) for each tap of output position `row`; pixel -1: outside.
template <class Visit>
void each_tap(const ConvShape& s, std::int64_t row, const Visit& visit) {
  const std::int64_t n = row / (s.oh * s.ow);
  const std::int64_t top = row / s.ow % s.oh * s.window.h.stride - s.window.h.pad_begin;
  const std::int64_t left = row % s.ow * s.window.w.stride - s.window.w.pad_begin;
  std::int64_t tap = 0;
  for (std::int64_t kh = 0; kh < s.window.h.kernel; ++kh) {
    for (std::int64_t kw = 0; kw < s.window.w.kernel; ++kw, ++tap) {
      const std::int64_t h = top + kh * s.window.h.dilation;
      const std::int64_t w = left + kw * s.window.w.dilation;
      const bool is_in = h >= 0 && h < s.h && w >= 0 && w < s.w;
      visit(is_in ? (n * s.h + h) * s.w + w : -1, tap);
    }
  }
}

void copy_window(const ConvShape& s, const float* x, std::int64_t row, float* to) {
  const auto bytes = static_cast<std::size_t>(s.c) * sizeof(float);
  each_tap(s, row, [&](std::int64_t pixel, std::int64_t tap) {
    if (pixel >= 0) {
      std::memcpy(to + tap * s.c, x + pixel * s.c, bytes);
    } else {
      std::memset(to + tap * s.c, 0, bytes);
    }
  });
}

// Adds `count` windows to the image. Threads share out channels: an element gets its summands in the order of the rows.
void add_windows(const ConvShape& s, const float* windows, std::int64_t first, std::int64_t count, float* dx) {
  constexpr std::int64_t kChannels = 64;
  const std::int64_t columns = columns_of(s);
#pragma omp parallel for schedule(static)
  for (std::int64_t c = 0; c < s.c; c += kChannels) {
    const std::int64_t end = std::min(s.c, c + kChannels);
    for (std::int64_t r = 0; r < count; ++r) {
      each_tap(s, first + r, [&](std::int64_t pixel, std::int64_t tap) {
        if (pixel < 0) return;
        const float* from = windows + r * columns + tap * s.c;
        for (std::int64_t i = c; i < end; ++i) dx[pixel * s.c + i] += from[i];
      });
    }
  }
}

// Some 512 KiB of windows: they stay in the cache until they are read.
std::int64_t rows_at_once(const ConvShape& s) {
  constexpr std::int64_t kFloats = 128 * 1024;
  const std::int64_t all = std::max<std::int64_t>(1, rows_of(s));
  return is_point(s) ? all : std::clamp<std::int64_t>(kFloats / std::max<std::int64_t>(1, columns_of(s)), 1, all);
}

std::int64_t window_bytes(const ConvShape& s) {
  return is_point(s) ? 0 : align_up(rows_at_once(s) * columns_of(s) * 4);
}

// dw [O, KH KW C] += dy^T [O, rows] * windows [rows, KH KW C]; pieces of the rows change no bit.
void add_weight(const ConvShape& s, const Buffers& b) {
  const std::int64_t columns = columns_of(s);
  const std::int64_t at_once = rows_at_once(s);
  auto* windows = reinterpret_cast<float*>(b.workspace);
  auto* scratch = reinterpret_cast<float*>(b.workspace + window_bytes(s));
  for (std::int64_t first = 0; first < rows_of(s); first += at_once) {
    const std::int64_t count = std::min(at_once, rows_of(s) - first);
    if (!is_point(s)) {
#pragma omp parallel for schedule(static)
      for (std::int64_t r = 0; r < count; ++r) copy_window(s, b.in<float>(0), first + r, windows + r * columns);
    }
    gemm_parallel({.m = s.o, .n = columns, .k = count}, {b.in<float>(1) + first * s.o, s.o, true},
                  {is_point(s) ? b.in<float>(0) : windows, columns, false}, {b.out<float>(0), columns, true}, scratch);
  }
}

// windows [rows, KH KW C] = dy [rows, O] * weight [O, KH KW C]
void make_data(const ConvShape& s, const Buffers& b) {
  const std::int64_t columns = columns_of(s);
  const std::int64_t at_once = rows_at_once(s);
  float* dx = b.out<float>(0);
  auto* windows = is_point(s) ? dx : reinterpret_cast<float*>(b.workspace);
  auto* scratch = reinterpret_cast<float*>(b.workspace + window_bytes(s));
  if (!is_point(s)) std::memset(dx, 0, static_cast<std::size_t>(s.n * s.h * s.w * s.c) * sizeof(float));
  for (std::int64_t first = 0; first < rows_of(s); first += at_once) {
    const std::int64_t count = std::min(at_once, rows_of(s) - first);
    gemm_parallel({.m = count, .n = columns, .k = s.o}, {b.in<float>(0) + first * s.o, s.o, false},
                  {b.in<float>(1), columns, false}, {windows, columns, false}, scratch);
    if (!is_point(s)) add_windows(s, windows, first, count, dx);
  }
}

}  // namespace

bool has_windows(const ConvShape& s) { return !s.is_volume && s.groups == 1 && s.type == DType::kF32; }

Prepared conv_add_weight_windows(const ConvShape& s, bool with_sum) {
  if (!has_windows(s)) return Declined{"images in one group only"};
  const GemmShape most = {.m = s.o, .n = columns_of(s), .k = rows_at_once(s)};
  const auto bytes = static_cast<std::size_t>(s.o * columns_of(s)) * sizeof(float);
  return function_kernel(
      [=](const Buffers& b) {
        if (!with_sum) {
          std::memset(b.outputs[0], 0, bytes);
        } else if (b.outputs[0] != b.inputs[2]) {
          std::memcpy(b.outputs[0], b.inputs[2], bytes);
        }
        add_weight(s, b);
      },
      window_bytes(s) + static_cast<std::int64_t>(gemm_scratch_bytes(most, omp_get_max_threads())));
}

Prepared conv_data_windows(const ConvShape& s) {
  if (!has_windows(s)) return Declined{"images in one group only"};
  const GemmShape most = {.m = rows_at_once(s), .n = columns_of(s), .k = s.o};
  return function_kernel([=](const Buffers& b) { make_data(s, b); },
                         window_bytes(s) + static_cast<std::int64_t>(gemm_scratch_bytes(most, omp_get_max_threads())));
}

}  // namespace neap::ops

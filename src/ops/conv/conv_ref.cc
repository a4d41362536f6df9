#include "ops/conv/conv.h"

namespace neap::ops {
namespace {

// Input position that tap k of output position o looks at.
std::int64_t source(const WindowAxis& a, std::int64_t o, std::int64_t k) {
  return o * a.stride - a.pad_begin + k * a.dilation;
}

// Output position whose tap k looks at input position i; -1: none.
std::int64_t target(const WindowAxis& a, std::int64_t i, std::int64_t k, std::int64_t positions) {
  const std::int64_t at = i + a.pad_begin - k * a.dilation;
  return at >= 0 && at % a.stride == 0 && at / a.stride < positions ? at / a.stride : -1;
}

bool inside(std::int64_t i, std::int64_t size) { return i >= 0 && i < size; }

std::int64_t at(std::int64_t a, std::int64_t h, std::int64_t i, std::int64_t w, std::int64_t j, std::int64_t c) {
  return ((a * h + i) * w + j) * c;
}

}  // namespace

void conv_forward_ref(const ConvShape& s, const float* x, const float* w, const float* bias, float* y) {
  const Window& k = s.window;
  const std::int64_t cg = s.c / s.groups;
  const std::int64_t og = s.o / s.groups;
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t oh = 0; oh < s.oh; ++oh)
      for (std::int64_t ow = 0; ow < s.ow; ++ow)
        for (std::int64_t o = 0; o < s.o; ++o) {
          double sum = bias != nullptr ? bias[o] : 0;
          for (std::int64_t kh = 0; kh < k.h.kernel; ++kh)
            for (std::int64_t kw = 0; kw < k.w.kernel; ++kw) {
              const std::int64_t ih = source(k.h, oh, kh);
              const std::int64_t iw = source(k.w, ow, kw);
              if (!inside(ih, s.h) || !inside(iw, s.w)) continue;
              const float* xs = x + at(n, s.h, ih, s.w, iw, s.c) + o / og * cg;
              const float* ws = w + at(o, k.h.kernel, kh, k.w.kernel, kw, cg);
              for (std::int64_t c = 0; c < cg; ++c) sum += static_cast<double>(xs[c]) * ws[c];
            }
          y[at(n, s.oh, oh, s.ow, ow, s.o) + o] = static_cast<float>(sum);
        }
}

void conv_weight_ref(const ConvShape& s, const float* x, const float* dy, float* dw, float* db) {
  const Window& k = s.window;
  const std::int64_t cg = s.c / s.groups;
  const std::int64_t og = s.o / s.groups;
  for (std::int64_t o = 0; o < s.o; ++o)
    for (std::int64_t kh = 0; kh < k.h.kernel; ++kh)
      for (std::int64_t kw = 0; kw < k.w.kernel; ++kw)
        for (std::int64_t c = 0; c < cg; ++c) {
          double sum = 0;
          for (std::int64_t n = 0; n < s.n; ++n)
            for (std::int64_t oh = 0; oh < s.oh; ++oh)
              for (std::int64_t ow = 0; ow < s.ow; ++ow) {
                const std::int64_t ih = source(k.h, oh, kh);
                const std::int64_t iw = source(k.w, ow, kw);
                if (!inside(ih, s.h) || !inside(iw, s.w)) continue;
                sum += static_cast<double>(x[at(n, s.h, ih, s.w, iw, s.c) + o / og * cg + c]) *
                       dy[at(n, s.oh, oh, s.ow, ow, s.o) + o];
              }
          dw[at(o, k.h.kernel, kh, k.w.kernel, kw, cg) + c] = static_cast<float>(sum);
        }
  if (db == nullptr) return;
  for (std::int64_t o = 0; o < s.o; ++o) {
    double sum = 0;
    for (std::int64_t p = 0; p < s.n * s.oh * s.ow; ++p) sum += dy[p * s.o + o];
    db[o] = static_cast<float>(sum);
  }
}

void conv_data_ref(const ConvShape& s, const float* dy, const float* w, const float* bias, float* dx) {
  const Window& k = s.window;
  const std::int64_t cg = s.c / s.groups;
  const std::int64_t og = s.o / s.groups;
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t ih = 0; ih < s.h; ++ih)
      for (std::int64_t iw = 0; iw < s.w; ++iw)
        for (std::int64_t c = 0; c < s.c; ++c) {
          double sum = bias != nullptr ? bias[c] : 0;
          for (std::int64_t kh = 0; kh < k.h.kernel; ++kh)
            for (std::int64_t kw = 0; kw < k.w.kernel; ++kw) {
              const std::int64_t oh = target(k.h, ih, kh, s.oh);
              const std::int64_t ow = target(k.w, iw, kw, s.ow);
              if (oh < 0 || ow < 0) continue;
              for (std::int64_t o = c / cg * og; o < (c / cg + 1) * og; ++o) {
                sum += static_cast<double>(dy[at(n, s.oh, oh, s.ow, ow, s.o) + o]) *
                       w[at(o, k.h.kernel, kh, k.w.kernel, kw, cg) + c % cg];
              }
            }
          dx[at(n, s.h, ih, s.w, iw, s.c) + c] = static_cast<float>(sum);
        }
}

}  // namespace neap::ops

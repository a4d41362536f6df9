#include "ops/conv/conv_points.h"

namespace neap::ops {

void conv_forward_ref(const ConvShape& s, const float* x, const float* w, const float* bias, float* y) {
  const ConvPoints p{s};
  for (std::int64_t n = 0; n < s.n; ++n) {
    each_point(p.out, [&](const Point& to) {
      for (std::int64_t o = 0; o < s.o; ++o) {
        double sum = bias != nullptr ? bias[o] : 0;
        each_point(p.taps, [&](const Point& tap) {
          const Point from = p.from(to, tap);
          if (!from.is_in(p.in)) return;
          const float* xs = x + p.x_at(n, from) + o / p.og * p.cg;
          const float* ws = w + p.w_at(o, tap);
          for (std::int64_t c = 0; c < p.cg; ++c) sum += static_cast<double>(xs[c]) * ws[c];
        });
        y[p.y_at(n, to) + o] = static_cast<float>(sum);
      }
    });
  }
}

void conv_weight_ref(const ConvShape& s, const float* x, const float* dy, float* dw, float* db) {
  const ConvPoints p{s};
  for (std::int64_t o = 0; o < s.o; ++o) {
    each_point(p.taps, [&](const Point& tap) {
      for (std::int64_t c = 0; c < p.cg; ++c) {
        double sum = 0;
        for (std::int64_t n = 0; n < s.n; ++n) {
          each_point(p.out, [&](const Point& to) {
            const Point from = p.from(to, tap);
            if (!from.is_in(p.in)) return;
            sum += static_cast<double>(x[p.x_at(n, from) + o / p.og * p.cg + c]) * dy[p.y_at(n, to) + o];
          });
        }
        dw[p.w_at(o, tap) + c] = static_cast<float>(sum);
      }
    });
  }
  if (db == nullptr) return;
  for (std::int64_t o = 0; o < s.o; ++o) {
    double sum = 0;
    for (std::int64_t i = 0; i < s.n * s.od * s.oh * s.ow; ++i) sum += dy[i * s.o + o];
    db[o] = static_cast<float>(sum);
  }
}

void conv_data_ref(const ConvShape& s, const float* dy, const float* w, const float* bias, float* dx) {
  const ConvPoints p{s};
  for (std::int64_t n = 0; n < s.n; ++n) {
    each_point(p.in, [&](const Point& from) {
      for (std::int64_t c = 0; c < s.c; ++c) {
        double sum = bias != nullptr ? bias[c] : 0;
        each_point(p.taps, [&](const Point& tap) {
          const Point to = p.to(from, tap);
          if (!to.is_in(p.out)) return;
          for (std::int64_t o = c / p.cg * p.og; o < (c / p.cg + 1) * p.og; ++o) {
            sum += static_cast<double>(dy[p.y_at(n, to) + o]) * w[p.w_at(o, tap) + c % p.cg];
          }
        });
        dx[p.x_at(n, from) + c] = static_cast<float>(sum);
      }
    });
  }
}

}  // namespace neap::ops

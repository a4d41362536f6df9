// One element of the result of roi_align: for kernels on the CPU and on CUDA.
#pragma once

#include <cmath>

#include "device/both.h"
#include "ops/kernel.h"

namespace neap::ops {

// A position between the two neighbours along an axis.
struct Between {
  std::int64_t low = 0, high = 0;
  double rest = 0;
  bool outside = false;

  NEAP_BOTH Between(double at, std::int64_t size) {
    outside = !(at >= -1 && at <= static_cast<double>(size));
    if (outside) return;
    at = at > 0 ? at : 0;
    low = static_cast<std::int64_t>(at);
    low = low < size - 1 ? low : size - 1;
    high = low + 1 < size ? low + 1 : size - 1;
    rest = low == size - 1 ? 0 : at - static_cast<double>(low);
  }
};

// One axis of a region: where it starts, how large a bin is, how many samples a bin has.
struct Bins {
  double start, size;
  std::int64_t samples;

  NEAP_BOTH Bins(double from, double to, std::int64_t bins, std::int64_t ratio, bool half_pixel) : start(from) {
    const double length = half_pixel || !(to - from < 1) ? to - from : 1;
    size = length / static_cast<double>(bins);
    const double most = 65536;
    samples = ratio > 0 ? ratio : size > 0 ? static_cast<std::int64_t>(ceil(size) < most ? ceil(size) : most) : 0;
  }
  NEAP_BOTH double at(std::int64_t bin, std::int64_t sample) const {
    return start + static_cast<double>(bin) * size +
           (static_cast<double>(sample) + 0.5) * size / static_cast<double>(samples);
  }
};

struct RoiProblem {
  std::int64_t n, h, w, c, regions, oh, ow, ratio;
  double scale;
  bool max, half_pixel;

  // Bin (i, j) of a region in the channel of an image that begins at x.
  NEAP_BOTH float bin(const float* x, const float* roi, std::int64_t i, std::int64_t j) const {
    const double offset = half_pixel ? 0.5 : 0;
    const Bins rows(roi[1] * scale - offset, roi[3] * scale - offset, oh, ratio, half_pixel);
    const Bins columns(roi[0] * scale - offset, roi[2] * scale - offset, ow, ratio, half_pixel);
    double sum = 0;
    for (std::int64_t p = 0; p < rows.samples; ++p) {
      for (std::int64_t q = 0; q < columns.samples; ++q) {
        const double v = sample(x, rows.at(i, p), columns.at(j, q));
        sum = !max ? sum + v : p + q == 0 ? v : larger(sum, v);
      }
    }
    const auto count = static_cast<double>(rows.samples * columns.samples);
    return static_cast<float>(max || count < 1 ? sum : sum / count);
  }

 private:
  NEAP_BOTH static double larger(double a, double b) { return a < b ? b : a; }

  NEAP_BOTH double sample(const float* x, double at_h, double at_w) const {
    const Between y(at_h, h);
    const Between z(at_w, w);
    if (y.outside || z.outside) return 0;
    const double a = (1 - y.rest) * (1 - z.rest) * x[(y.low * w + z.low) * c];
    const double b = (1 - y.rest) * z.rest * x[(y.low * w + z.high) * c];
    const double d = y.rest * (1 - z.rest) * x[(y.high * w + z.low) * c];
    const double e = y.rest * z.rest * x[(y.high * w + z.high) * c];
    return max ? larger(larger(larger(a, b), d), e) : a + b + d + e;
  }
};

RoiProblem roi_problem(const OpCall& call);

[[gnu::weak]] Prepared roi_align_cuda(const OpCall& call);

}  // namespace neap::ops

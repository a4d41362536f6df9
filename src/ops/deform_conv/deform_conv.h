#pragma once

#include <cmath>

#include "device/both.h"
#include "ops/conv/conv.h"

namespace neap::ops {

struct DeformConv {
  ConvShape s;
  std::int64_t offset_groups;

  // x of one image and channel between four pixels; zero outside.
  NEAP_BOTH double sample(const float* x, double at_h, double at_w) const {
    const double top = floor(at_h);
    const double left = floor(at_w);
    double sum = 0;
    for (int corner = 0; corner < 4; ++corner) {
      const double i = corner < 2 ? top : top + 1;
      const double j = corner % 2 == 0 ? left : left + 1;
      const bool inside = i >= 0 && i < static_cast<double>(s.h) && j >= 0 && j < static_cast<double>(s.w);
      if (!inside) continue;
      const double weight = (1 - fabs(at_h - i)) * (1 - fabs(at_w - j));
      sum += weight * x[(static_cast<std::int64_t>(i) * s.w + static_cast<std::int64_t>(j)) * s.c];
    }
    return sum;
  }
};

DeformConv deform_conv_of(const OpCall& call);

[[gnu::weak]] Prepared deform_conv_cuda(const OpCall& call);

}  // namespace neap::ops

#include <algorithm>
#include <cmath>

#include "ops/softmax/softmax.h"

namespace neap::ops {

Prepared softmax_ref(const OpCall& call) {
  return function_kernel([s = axis_shape(call)](const Buffers& b) {
    for (std::int64_t r = 0; r < s.outer * s.inner; ++r) {
      const std::int64_t first = r / s.inner * s.width * s.inner + r % s.inner;
      const float* x = b.in<float>(0) + first;
      float* y = b.out<float>(0) + first;
      double top = x[0];
      for (std::int64_t i = 1; i < s.width; ++i) top = std::max(top, static_cast<double>(x[i * s.inner]));
      double sum = 0;
      for (std::int64_t i = 0; i < s.width; ++i) sum += std::exp(x[i * s.inner] - top);
      for (std::int64_t i = 0; i < s.width; ++i) {
        y[i * s.inner] = static_cast<float>(std::exp(x[i * s.inner] - top) / sum);
      }
    }
  });
}

Prepared softmax_grad_ref(const OpCall& call) {
  return function_kernel([s = axis_shape(call)](const Buffers& b) {
    for (std::int64_t r = 0; r < s.outer * s.inner; ++r) {
      const std::int64_t first = r / s.inner * s.width * s.inner + r % s.inner;
      const float* dy = b.in<float>(0) + first;
      const float* y = b.in<float>(1) + first;
      float* dx = b.out<float>(0) + first;
      double dot = 0;
      for (std::int64_t i = 0; i < s.width; ++i) dot += static_cast<double>(dy[i * s.inner]) * y[i * s.inner];
      for (std::int64_t i = 0; i < s.width; ++i) {
        dx[i * s.inner] = static_cast<float>(y[i * s.inner] * (dy[i * s.inner] - dot));
      }
    }
  });
}

}  // namespace neap::ops

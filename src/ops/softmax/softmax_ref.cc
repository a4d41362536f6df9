#include <algorithm>
#include <cmath>

#include "ops/softmax/softmax.h"

namespace neap::ops {

Prepared softmax_ref(const OpCall& call) {
  return function_kernel([s = row_shape(call.shape(0))](const Buffers& b) {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const float* x = b.in<float>(0) + r * s.width;
      float* y = b.out<float>(0) + r * s.width;
      const float top = *std::max_element(x, x + s.width);
      double sum = 0;
      for (std::int64_t i = 0; i < s.width; ++i) sum += std::exp(static_cast<double>(x[i]) - top);
      for (std::int64_t i = 0; i < s.width; ++i) {
        y[i] = static_cast<float>(std::exp(static_cast<double>(x[i]) - top) / sum);
      }
    }
  });
}

Prepared softmax_grad_ref(const OpCall& call) {
  return function_kernel([s = row_shape(call.shape(0))](const Buffers& b) {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const float* dy = b.in<float>(0) + r * s.width;
      const float* y = b.in<float>(1) + r * s.width;
      float* dx = b.out<float>(0) + r * s.width;
      double dot = 0;
      for (std::int64_t i = 0; i < s.width; ++i) dot += static_cast<double>(dy[i]) * y[i];
      for (std::int64_t i = 0; i < s.width; ++i) dx[i] = static_cast<float>(y[i] * (dy[i] - dot));
    }
  });
}

}  // namespace neap::ops

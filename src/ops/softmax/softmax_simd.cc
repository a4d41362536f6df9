#include "ops/softmax/softmax_simd.h"

#include <math.h>

namespace neap::NEAP_ISA_NS {
namespace {

void forward(const float* src, float* dst, RowShape s) {
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const float* x = src + r * s.width;
    float* y = dst + r * s.width;
    float top = x[0];
    for (std::int64_t i = 1; i < s.width; ++i) top = x[i] > top ? x[i] : top;
    float sum = 0;
    for (std::int64_t i = 0; i < s.width; ++i) {
      y[i] = expf(x[i] - top);
      sum += y[i];
    }
    const float scale = 1.0F / sum;
    for (std::int64_t i = 0; i < s.width; ++i) y[i] *= scale;
  }
}

void backward(const float* diff_dst, const float* dst, float* diff_src, RowShape s) {
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const float* dy = diff_dst + r * s.width;
    const float* y = dst + r * s.width;
    float* dx = diff_src + r * s.width;
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t i = 0; i < s.width; ++i) dot += dy[i] * y[i];
    for (std::int64_t i = 0; i < s.width; ++i) dx[i] = y[i] * (dy[i] - dot);
  }
}

}  // namespace

const SoftmaxTable& softmax_table() {
  static constexpr SoftmaxTable kTable = {forward, backward};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS

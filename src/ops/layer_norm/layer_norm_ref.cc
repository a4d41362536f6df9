#include <algorithm>
#include <cmath>

#include "ops/layer_norm/row_norm.h"

namespace neap::ops {

Prepared layer_norm_ref(const OpCall& call) {
  const RowNorm s = row_norm(call.shape(0), call.attrs);
  return function_kernel([s, epsilon = norm_epsilon(call.attrs)](const Buffers& b) {
    const auto width = static_cast<double>(s.width);
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const float* x = b.in<float>(0) + r * s.width;
      double mean = 0;
      double var = 0;
      for (std::int64_t i = 0; i < s.width; ++i) mean += x[i] / width;
      for (std::int64_t i = 0; i < s.width; ++i) var += (x[i] - mean) * (x[i] - mean) / width;
      const double rstd = 1 / std::sqrt(var + epsilon);
      for (std::int64_t i = 0; i < s.width; ++i) {
        const double scale = b.in<float>(1) != nullptr ? b.in<float>(1)[i] : 1;
        const double bias = b.in<float>(2) != nullptr ? b.in<float>(2)[i] : 0;
        b.out<float>(0)[r * s.width + i] = static_cast<float>((x[i] - mean) * rstd * scale + bias);
      }
      if (b.outputs[1] != nullptr) b.out<float>(1)[r] = static_cast<float>(mean);
      if (b.outputs[2] != nullptr) b.out<float>(2)[r] = static_cast<float>(rstd);
    }
  });
}

namespace {

// One column of the parameters' gradients.
void parameter_sums(const Buffers& b, const RowNorm& s, std::int64_t i) {
  double dscale = 0;
  double dbias = 0;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const double dy = b.in<float>(0)[r * s.width + i];
    dscale += dy * (b.in<float>(1)[r * s.width + i] - b.in<float>(2)[r]) * b.in<float>(3)[r];
    dbias += dy;
  }
  if (b.outputs[1] != nullptr) b.out<float>(1)[i] = static_cast<float>(dscale);
  if (b.outputs[2] != nullptr) b.out<float>(2)[i] = static_cast<float>(dbias);
}

void row_gradient(const Buffers& b, const RowNorm& s, std::int64_t r) {
  const double mean = b.in<float>(2)[r];
  const double rstd = b.in<float>(3)[r];
  const auto normal = [&](std::int64_t i) { return (b.in<float>(1)[r * s.width + i] - mean) * rstd; };
  const auto g = [&](std::int64_t i) {
    const double scale = b.in<float>(4) != nullptr ? b.in<float>(4)[i] : 1;
    return b.in<float>(0)[r * s.width + i] * scale;
  };
  double sum = 0;
  double product = 0;
  for (std::int64_t i = 0; i < s.width; ++i) {
    sum += g(i);
    product += g(i) * normal(i);
  }
  const auto width = static_cast<double>(s.width);
  for (std::int64_t i = 0; i < s.width; ++i) {
    const double more = b.in<float>(5) != nullptr ? b.in<float>(5)[r * s.width + i] : 0;
    b.out<float>(0)[r * s.width + i] =
        static_cast<float>(rstd * (g(i) - sum / width - normal(i) * product / width) + more);
  }
}

}  // namespace

Prepared layer_norm_grad_ref(const OpCall& call) {
  return function_kernel([s = row_norm(call.shape(1), call.attrs)](const Buffers& b) {
    for (std::int64_t i = 0; i < s.width; ++i) parameter_sums(b, s, i);
    for (std::int64_t r = 0; r < s.rows && b.outputs[0] != nullptr; ++r) row_gradient(b, s, r);
  });
}

}  // namespace neap::ops

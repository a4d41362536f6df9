#include <cmath>

#include "ops/batch_norm/batch_norm.h"

namespace neap::ops {
namespace {

struct Size {
  std::int64_t rows;
  std::int64_t c;
  explicit Size(const Shape& x) : rows(rows_of(x).rows), c(x.size(-1)) {}
};

bool bit(const std::uint8_t* mask, std::int64_t i) { return (mask[i / 8] >> (i % 8) & 1U) != 0; }

void write_mask(const float* y, std::int64_t n, std::uint8_t* mask) {
  for (std::int64_t i = 0; i < n; i += 8) mask[i / 8] = 0;
  for (std::int64_t i = 0; i < n; ++i)
    mask[i / 8] = static_cast<std::uint8_t>(mask[i / 8] | (y[i] > 0 ? 1U << (i % 8) : 0U));
}

}  // namespace

Prepared batch_stats_ref(const OpCall& call) {
  return function_kernel([s = Size(call.shape(0)), epsilon = call.attrs.real("epsilon", 1e-5)](const Buffers& b) {
    const float* x = b.in<float>(0);
    for (std::int64_t c = 0; c < s.c; ++c) {
      double sum = 0;
      double squares = 0;
      for (std::int64_t r = 0; r < s.rows; ++r) sum += x[r * s.c + c];
      const double mean = sum / static_cast<double>(s.rows);
      for (std::int64_t r = 0; r < s.rows; ++r) squares += (x[r * s.c + c] - mean) * (x[r * s.c + c] - mean);
      const double var = squares / static_cast<double>(s.rows);
      if (b.outputs[0] != nullptr) b.out<float>(0)[c] = static_cast<float>(mean);
      if (b.outputs[1] != nullptr) b.out<float>(1)[c] = static_cast<float>(1 / std::sqrt(var + epsilon));
      if (b.outputs[2] != nullptr) b.out<float>(2)[c] = static_cast<float>(var);
    }
  });
}

Prepared batch_norm_apply_ref(const OpCall& call) {
  const bool relu = call.attrs.integer("relu", 0) != 0;
  return function_kernel([s = Size(call.shape(0)), relu](const Buffers& b) {
    float* y = b.out<float>(0);
    for (std::int64_t i = 0; i < s.rows * s.c; ++i) {
      const std::int64_t c = i % s.c;
      double v = static_cast<double>(b.in<float>(3)[c]) * (b.in<float>(0)[i] - b.in<float>(1)[c]) * b.in<float>(2)[c];
      v += b.in<float>(4)[c];
      if (b.in<float>(5) != nullptr) v += b.in<float>(5)[i];
      y[i] = static_cast<float>(relu && v < 0 ? 0 : v);
    }
    if (b.outputs[1] != nullptr) write_mask(y, s.rows * s.c, b.out<std::uint8_t>(1));
  });
}

Prepared batch_norm_grad_ref(const OpCall& call) {
  const bool relu = call.attrs.integer("relu", 0) != 0;
  const bool frozen = call.attrs.integer("frozen", 0) != 0;
  return function_kernel([s = Size(call.shape(kDy)), relu, frozen](const Buffers& b) {
    const float* x = b.in<float>(kX);
    const auto* mask = b.in<std::uint8_t>(kMask);
    for (std::int64_t c = 0; c < s.c; ++c) {
      const double mean = b.in<float>(kMean)[c];
      const double rstd = b.in<float>(kRstd)[c];
      const double scale = b.in<float>(kScale)[c];
      const auto gated = [&](std::int64_t i) -> double {
        const double dy = b.in<float>(kDy)[i];
        if (!relu) return dy;
        if (mask != nullptr) return bit(mask, i) ? dy : 0;
        return scale * rstd * (x[i] - mean) + b.in<float>(kBias)[c] > 0 ? dy : 0;
      };
      double sum = 0;
      double product = 0;
      for (std::int64_t i = c; i < s.rows * s.c; i += s.c) {
        sum += gated(i);
        product += gated(i) * (x[i] - mean) * rstd;
      }
      if (b.outputs[1] != nullptr) b.out<float>(1)[c] = static_cast<float>(product);
      if (b.outputs[2] != nullptr) b.out<float>(2)[c] = static_cast<float>(sum);
      const double m = frozen ? INFINITY : static_cast<double>(s.rows);
      for (std::int64_t i = c; i < s.rows * s.c; i += s.c) {
        const double g = gated(i);
        const double dx = scale * rstd * (g - sum / m - (x[i] - mean) * rstd * product / m);
        if (b.outputs[3] != nullptr) b.out<float>(3)[i] = static_cast<float>(g);
        if (b.outputs[0] != nullptr) b.out<float>(0)[i] = static_cast<float>(dx);
      }
    }
  });
}

Prepared batch_norm_frozen_grad_ref(const OpCall& call) {
  return function_kernel([s = Size(call.shape(0))](const Buffers& b) {
    const auto* mask = b.in<std::uint8_t>(3);
    for (std::int64_t i = 0; i < s.rows * s.c; ++i) {
      const double g = mask == nullptr || bit(mask, i) ? b.in<float>(0)[i] : 0;
      const double factor = static_cast<double>(b.in<float>(1)[i % s.c]) * b.in<float>(2)[i % s.c];
      if (b.outputs[1] != nullptr) b.out<float>(1)[i] = static_cast<float>(g);
      if (b.outputs[0] != nullptr) b.out<float>(0)[i] = static_cast<float>(g * factor);
    }
  });
}

}  // namespace neap::ops

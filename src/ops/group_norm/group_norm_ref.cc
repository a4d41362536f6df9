#include <cmath>

#include "ops/group_norm/group_norm.h"

namespace neap::ops {
namespace {

// Calls f(element, channel) for all elements of a group of an image.
template <class F>
void each_element(const GroupNorm& g, std::int64_t image, std::int64_t group, F f) {
  for (std::int64_t r = 0; r < g.columns.rows; ++r) {
    for (std::int64_t c = group * g.group_channels(); c < (group + 1) * g.group_channels(); ++c) {
      f((image * g.columns.rows + r) * g.columns.c + c, c);
    }
  }
}

double or_else(const float* numbers, std::int64_t i, double without) {
  return numbers != nullptr ? numbers[i] : without;
}

void forward(const GroupNorm& g, const Buffers& b, std::int64_t image, std::int64_t group) {
  const float* x = b.in<float>(0);
  double mean = 0;
  double squares = 0;
  each_element(g, image, group, [&](std::int64_t i, std::int64_t) { mean += x[i] / g.group_elements(); });
  each_element(g, image, group, [&](std::int64_t i, std::int64_t) { squares += (x[i] - mean) * (x[i] - mean); });
  const double rstd = 1 / std::sqrt(squares / g.group_elements() + g.epsilon);
  each_element(g, image, group, [&](std::int64_t i, std::int64_t c) {
    const double y = (x[i] - mean) * rstd * or_else(b.in<float>(1), c, 1) + or_else(b.in<float>(2), c, 0);
    b.out<float>(0)[i] = static_cast<float>(y);
  });
  const std::int64_t at = image * g.groups + group;
  if (b.outputs[1] != nullptr) b.out<float>(1)[at] = static_cast<float>(mean);
  if (b.outputs[2] != nullptr) b.out<float>(2)[at] = static_cast<float>(rstd);
}

struct Normal {
  const GroupNorm& g;
  const Buffers& b;
  double operator()(std::int64_t image, std::int64_t i, std::int64_t c) const {
    const std::int64_t at = image * g.groups + c / g.group_channels();
    return (static_cast<double>(b.in<float>(1)[i]) - b.in<float>(2)[at]) * b.in<float>(3)[at];
  }
};

void backward(const GroupNorm& g, const Buffers& b, std::int64_t image, std::int64_t group) {
  const Normal normal{g, b};
  const auto scaled = [&](std::int64_t i, std::int64_t c) { return b.in<float>(0)[i] * or_else(b.in<float>(4), c, 1); };
  double sum = 0;
  double product = 0;
  each_element(g, image, group, [&](std::int64_t i, std::int64_t c) {
    sum += scaled(i, c) / g.group_elements();
    product += scaled(i, c) * normal(image, i, c) / g.group_elements();
  });
  const double rstd = b.in<float>(3)[image * g.groups + group];
  each_element(g, image, group, [&](std::int64_t i, std::int64_t c) {
    b.out<float>(0)[i] = static_cast<float>(rstd * (scaled(i, c) - sum - normal(image, i, c) * product));
  });
}

void parameter(const GroupNorm& g, const Buffers& b, std::int64_t c) {
  const Columns& s = g.columns;
  const Normal normal{g, b};
  double dscale = 0;
  double dbias = 0;
  for (std::int64_t r = 0; r < s.images * s.rows; ++r) {
    const double dy = b.in<float>(0)[r * s.c + c];
    dscale += dy * normal(r / s.rows, r * s.c + c, c);
    dbias += dy;
  }
  if (b.outputs[1] != nullptr) b.out<float>(1)[c] = static_cast<float>(dscale);
  if (b.outputs[2] != nullptr) b.out<float>(2)[c] = static_cast<float>(dbias);
}

}  // namespace

Prepared group_norm_ref(const OpCall& call) {
  return function_kernel([g = group_norm_of(call.shape(0), call.attrs)](const Buffers& b) {
    for (std::int64_t i = 0; i < g.columns.images * g.groups; ++i) forward(g, b, i / g.groups, i % g.groups);
  });
}

Prepared group_norm_grad_ref(const OpCall& call) {
  return function_kernel([g = group_norm_of(call.shape(1), call.attrs)](const Buffers& b) {
    for (std::int64_t c = 0; c < g.columns.c; ++c) parameter(g, b, c);
    if (b.outputs[0] == nullptr) return;
    for (std::int64_t i = 0; i < g.columns.images * g.groups; ++i) backward(g, b, i / g.groups, i % g.groups);
  });
}

}  // namespace neap::ops

#include <cmath>

#include "ops/update/update.h"

namespace neap::ops {
namespace {

// The decimal that was meant: 1 - 0.999 is 0.001, not what is left of it in f32.
double decimal(float beta) { return std::nearbyint(static_cast<double>(beta) * 1e7) / 1e7; }

double gradient_scale(const float* hyper, const float* clip) {
  return static_cast<double>(hyper[7]) * (clip != nullptr ? clip[0] : 1.0F);
}

}  // namespace

void sgd_ref_step(float& param, double grad, float* momentum, const float* hyper, const float* clip, bool nesterov) {
  const double rate = hyper[0];
  const double mu = hyper[1];
  double g = grad * gradient_scale(hyper, clip) + static_cast<double>(hyper[4]) * param;
  if (momentum != nullptr) {
    const double velocity = mu * *momentum + g;
    *momentum = static_cast<float>(velocity);
    g = nesterov ? g + mu * velocity : velocity;
  }
  param = static_cast<float>(param - rate * g);
}

void adam_ref_step(float& param, double grad, float& mean, float& square, const float* hyper, const float* clip,
                   bool decoupled) {
  const double rate = hyper[0];
  const double decay = hyper[4];
  const double beta1 = decimal(hyper[1]);
  const double beta2 = decimal(hyper[2]);
  double p = param;
  double g = grad * gradient_scale(hyper, clip);
  if (decoupled) {
    p -= rate * decay * p;
  } else {
    g += decay * p;
  }
  const double m = beta1 * mean + (1 - beta1) * g;
  const double v = beta2 * square + (1 - beta2) * g * g;
  mean = static_cast<float>(m);
  square = static_cast<float>(v);
  const double denominator = std::sqrt(v) / std::sqrt(static_cast<double>(hyper[6])) + hyper[3];
  param = static_cast<float>(p - rate / hyper[5] * m / denominator);
}

Prepared sgd_ref(const OpCall& call) {
  return function_kernel(
      [n = call.in(0).elements(), nesterov = call.attrs.integer("nesterov", 0) != 0](const Buffers& b) {
        if (is_put_off(b.in<float>(3))) return;
        auto* momentum = b.state<float>(2);
        for (std::int64_t i = 0; i < n; ++i) {
          sgd_ref_step(b.state<float>(0)[i], b.in<float>(1)[i], momentum != nullptr ? momentum + i : nullptr,
                       b.in<float>(3), b.in<float>(4), nesterov);
        }
      });
}

Prepared adam_ref(const OpCall& call) {
  return function_kernel([n = call.in(0).elements(), decoupled = call.op->name == "adamw_update"](const Buffers& b) {
    if (is_put_off(b.in<float>(4))) return;
    for (std::int64_t i = 0; i < n; ++i) {
      adam_ref_step(b.state<float>(0)[i], b.in<float>(1)[i], b.state<float>(2)[i], b.state<float>(3)[i], b.in<float>(4),
                    b.in<float>(5), decoupled);
    }
  });
}

}  // namespace neap::ops

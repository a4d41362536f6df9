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

Prepared sgd_ref(const OpCall& call) {
  return function_kernel(
      [n = call.in(0).elements(), nesterov = call.attrs.integer("nesterov", 0) != 0](const Buffers& b) {
        const float* hyper = b.in<float>(3);
        if (is_put_off(hyper)) return;
        const double rate = hyper[0];
        const double mu = hyper[1];
        for (std::int64_t i = 0; i < n; ++i) {
          float& param = b.state<float>(0)[i];
          double g = b.in<float>(1)[i] * gradient_scale(hyper, b.in<float>(4)) + static_cast<double>(hyper[4]) * param;
          if (b.in<float>(2) != nullptr) {
            float& momentum = b.state<float>(2)[i];
            const double velocity = mu * momentum + g;
            momentum = static_cast<float>(velocity);
            g = nesterov ? g + mu * velocity : velocity;
          }
          param = static_cast<float>(param - rate * g);
        }
      });
}

Prepared adam_ref(const OpCall& call) {
  return function_kernel([n = call.in(0).elements(), decoupled = call.op->name == "adamw_update"](const Buffers& b) {
    const float* hyper = b.in<float>(4);
    if (is_put_off(hyper)) return;
    const double rate = hyper[0];
    const double decay = hyper[4];
    const double beta1 = decimal(hyper[1]);
    const double beta2 = decimal(hyper[2]);
    for (std::int64_t i = 0; i < n; ++i) {
      double param = b.in<float>(0)[i];
      double g = b.in<float>(1)[i] * gradient_scale(hyper, b.in<float>(5));
      if (decoupled) {
        param -= rate * decay * param;
      } else {
        g += decay * param;
      }
      const double m = beta1 * b.in<float>(2)[i] + (1 - beta1) * g;
      const double v = beta2 * b.in<float>(3)[i] + (1 - beta2) * g * g;
      b.state<float>(2)[i] = static_cast<float>(m);
      b.state<float>(3)[i] = static_cast<float>(v);
      const double denominator = std::sqrt(v) / std::sqrt(static_cast<double>(hyper[6])) + hyper[3];
      b.state<float>(0)[i] = static_cast<float>(param - rate / hyper[5] * m / denominator);
    }
  });
}

}  // namespace neap::ops

#include <cmath>
#include <utility>

#include "neap/error.h"
#include "ops/relu/gate.h"

namespace neap::ops {
namespace {

// The value, and whether the slope is the steep one.
std::pair<float, bool> gate(GateFn fn, float x, GateArgs k) {
  switch (fn) {
    case GateFn::kRelu: return x <= 0 ? std::pair(0.0F, false) : std::pair(x, true);
    case GateFn::kLeakyRelu: return x > 0 ? std::pair(x, true) : std::pair(k.closed * x, false);
    case GateFn::kThresholdedRelu: return x <= k.a ? std::pair(0.0F, false) : std::pair(x, true);
    case GateFn::kClip: return {std::isnan(x) ? x : std::fmin(k.b, std::fmax(k.a, x)), x >= k.a && x <= k.b};
    case GateFn::kHardSigmoid: {
      const float line = k.a * x + k.b;
      return {line < 0 ? 0 : line > 1 ? 1 : line, line > 0 && line < 1};
    }
    case GateFn::kCount: break;
  }
  throw InternalError("no gate");
}

}  // namespace

Prepared gate_ref(const OpCall& call) {
  return function_kernel([g = gate_call(call), n = call.in(0).elements()](const Buffers& b) {
    std::uint8_t* mask = b.out<std::uint8_t>(1);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto [y, open] = gate(g.fn, b.in<float>(0)[i], g.args);
      b.out<float>(0)[i] = y;
      if (mask == nullptr) continue;
      if (i % 8 == 0) mask[i / 8] = 0;
      if (open) mask[i / 8] = static_cast<std::uint8_t>(mask[i / 8] | (1U << (i % 8)));
    }
  });
}

Prepared gate_grad_ref(const OpCall& call) {
  return function_kernel([k = gate_call(call).args, n = call.in(0).elements()](const Buffers& b) {
    for (std::int64_t i = 0; i < n; ++i) {
      const bool open = ((b.in<std::uint8_t>(1)[i / 8] >> (i % 8)) & 1) != 0;
      const float slope = open ? k.open : k.closed;
      b.out<float>(0)[i] = slope == 0 ? 0 : slope * b.in<float>(0)[i];
    }
  });
}

}  // namespace neap::ops

#include "ops/reduce/reduce_grad_simd.h"

#include "device/cpu/vmath.h"
#include "ops/elementwise/broadcast_walk.h"

namespace neap::NEAP_ISA_NS {
namespace {

void spread(const BroadcastPlan& plan, const float* dy, float scale, float* dst) {
  const bool repeats = plan.is_repeated(0);
  walk<1>(plan, [=](const std::int64_t* offset, std::int64_t at, std::int64_t n) {
    const float* from = dy + offset[0];
    float* to = dst + at;
    if (repeats) {
      const float value = from[0] * scale;
      for (std::int64_t i = 0; i < n; ++i) to[i] = value;
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i] = from[i] * scale;
    }
  });
}

// dy, p and q are laid out alike: along a row all three are repeated or none is.
template <bool kRepeats>
NEAP_VM vf load(const float* p, std::int64_t i, std::int64_t n) {
  if (p == nullptr) return vf{};
  return kRepeats ? vset(p[0]) : vload_n(p + i, n);
}

template <auto F>
void run(const BroadcastPlan& plan, const float* dy, const float* x, const float* p, const float* q, float* dst) {
  with_flag(plan.is_repeated(0), [&](auto repeats) {
    walk<4>(plan, [=](const std::int64_t* offset, std::int64_t at, std::int64_t n) {
      const float* flow = dy + offset[0];
      const float* terms = x + offset[1];
      const float* first = p != nullptr ? p + offset[2] : nullptr;
      const float* second = q != nullptr ? q + offset[3] : nullptr;
      for (std::int64_t i = 0; i < n; i += kLanes) {
        const std::int64_t rest = n - i < kLanes ? n - i : kLanes;
        const vf dx = F(load<repeats.value>(flow, i, rest), vload_n(terms + i, rest),
                        load<repeats.value>(first, i, rest), load<repeats.value>(second, i, rest));
        vstore_n(dst + at + i, dx, rest);
      }
    });
  });
}

NEAP_VM vf sign(vf x) { return x > 0.0F ? vset(1.0F) : (x < 0.0F ? vset(-1.0F) : x); }

// One zero: the others' product is its slope, and theirs is 0. More: 0 for all.
NEAP_VM vf prod_slope(vf x, vf product, vf zeros) {
  const vf at_zero = zeros == 1.0F ? product : vf{};
  return x == 0.0F ? at_zero : (zeros == 0.0F ? product / x : vf{});
}

}  // namespace

const ReduceGradTable& reduce_grad_table() {
  static constexpr ReduceGradTable kTable = {
      spread,
      {run<[](vf dy, vf x, vf, vf) -> vf { return dy * sign(x); }>,
       run<[](vf dy, vf x, vf y, vf) -> vf { return y == 0.0F ? vf{} : dy * (x / y); }>,
       run<[](vf dy, vf x, vf y, vf) -> vf { return dy * (x == y ? vset(1.0F) : vexp(x - y)); }>,
       run<[](vf dy, vf x, vf, vf) -> vf { return 2.0F * dy * x; }>,
       run<[](vf dy, vf x, vf y, vf ties) -> vf { return x == y ? dy / ties : vf{}; }>,
       run<[](vf dy, vf x, vf product, vf zeros) -> vf { return dy * prod_slope(x, product, zeros); }>}};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS

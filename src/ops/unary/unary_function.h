// Vector functions of the unary ops beyond vmath.h, for *_simd.cc files only. Formulas that multiply by x take it
// bounded where the other factor has become 0 or 1, so that infinities give the limit and not NaN.
#pragma once

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

// NaN passes.
NEAP_VM vf vbound(vf x, float low, float high) { return vmax(vset(low), vmin(vset(high), x)); }

// x = n ln2 + r; e^x - 1 = 2^n (e^r - 1) + (2^n - 1), halved until the last step so that 2^128 is not needed.
NEAP_VM vf vexpm1(vf x) {
  const vf bounded = vbound(x, -20.0F, 89.0F);
  constexpr float kShift = 0x1.8p23F;
  const vf shifted = vfma(bounded, vset(0x1.715476p0F), vset(kShift));
  const vf n = shifted - kShift;
  const vi whole = reinterpret_cast<vi>(as_bits(shifted) - as_bits(vset(kShift)));
  const vf r = vfma(n, vset(-kLn2Low), vfma(n, vset(-kLn2High), bounded));
  const vf q = vpoly(r, 0.00138144777F, 0.00836878084F, 0.0416683927F, 0.166665196F, 0.49999994F);
  const vf half_power = vexp2_int(whole - 1);
  const vf y = 2.0F * vfma(half_power, vfma(r * r, q, r), half_power - 0.5F);
  return vabs(x) < 0x1p-25F ? x : y;
}

// log(1 + x) with the rounding error of 1 + x put back.
NEAP_VM vf vlog1p(vf x) {
  const vf u = 1.0F + x;
  const vf y = vlog(u) + (x - (u - 1.0F)) / u;
  const vi as_is = (u == 1.0F) | (x == __builtin_inff());
  return as_is ? x : (u == 0.0F ? vset(-__builtin_inff()) : y);
}

NEAP_VM vf vsoftplus(vf x) { return vmax(vset(0.0F), x) + vlog1p(vexp(-vabs(x))); }

NEAP_VM vf vround_even(vf x) {
  const vf y = vcopysign(to_float(vnearest(x)), x);
  return vabs(x) < 0x1p23F ? y : x;
}
NEAP_VM vf vfloor(vf x) {
  const vf y = vround_even(x);
  return vcopysign(y > x ? y - 1.0F : y, x);
}
NEAP_VM vf vceil(vf x) {
  const vf y = vround_even(x);
  return vcopysign(y < x ? y + 1.0F : y, x);
}
NEAP_VM vf vsign(vf x) { return x > 0.0F ? vset(1.0F) : (x < 0.0F ? vset(-1.0F) : x); }

NEAP_VM vf vsoftsign(vf x) {
  const vf size = vabs(x);
  return vcopysign(size == __builtin_inff() ? vset(1.0F) : size / (1.0F + size), x);
}

NEAP_VM vf vhard_swish(vf x) {
  const vf y = x * (x + 3.0F) * (1.0F / 6.0F);
  return x <= -3.0F ? vf{} : (x >= 3.0F ? x : y);
}
NEAP_VM vf vhard_swish_slope(vf x) {
  const vf slope = x * (1.0F / 3.0F) + 0.5F;
  return x <= -3.0F ? vf{} : (x >= 3.0F ? vset(1.0F) : slope);
}

// tanh(log(1 + e)) = n / (n + 2), n = e (e + 2), e = e^x; from 20 on it is 1 in f32.
NEAP_VM vf vmish(vf x) {
  const vf e = vexp(vmin(vset(20.0F), x));
  const vf n = e * (e + 2.0F);
  return vmax(vset(-110.0F), x) * (n / (n + 2.0F));
}
NEAP_VM vf vmish_slope(vf x) {
  const vf bounded = vbound(x, -110.0F, 20.0F);
  const vf e = vexp(bounded);
  const vf n = e * (e + 2.0F);
  const vf inverse = 1.0F / (n + 2.0F);
  return n * inverse + bounded * (4.0F * e * (1.0F + e)) * inverse * inverse;
}

// e^x for x in [-87, 0], whose result is no denormal: what vexp does, with the power of two put in at once.
NEAP_VM vf vexp_of_bounded(vf x) {
  constexpr float kShift = 0x1.8p23F;
  const vf shifted = vfma(x, vset(0x1.715476p0F), vset(kShift));
  const vf n = shifted - kShift;
  const vf r = vfma(n, vset(-kLn2Low), vfma(n, vset(-kLn2High), x));
  const vf q = vpoly(r, 0.00138144777F, 0.00836878084F, 0.0416683927F, 0.166665196F, 0.49999994F);
  const vf e = vfma(r * r, q, r) + 1.0F;
  return as_float(as_bits(e) + (as_bits(shifted) << 23));
}

// x Phi(x) = max(x, 0) - |x| T(|x|), where T(a) = erfc(a / sqrt 2) / 2 = e^-Q(a). The polynomial is a minimax fit of Q
// on [0, 6]; from there on the second term is below 1e-8.
NEAP_VM vf vgelu(vf x) {
  const vf a = vmin(vset(6.0F), vabs(x));
  const vf q = vpoly(a, 1.47225832e-08F, -4.60275288e-07F, 6.1511455e-06F, -4.45124679e-05F, 0.000164483557F,
                     6.13447119e-05F, -0.00489091314F, 0.0364013575F, 0.318290234F, 0.797886789F, 0.693147123F);
  return vmax(vset(0.0F), x) - a * vexp_of_bounded(-q);
}
// Phi(x) + x phi(x) = h(|x|) for x < 0, else 1 - h, where h(a) = T(a) - a phi(a) = e^(-a^2 / 2) S(a); S as Q before.
NEAP_VM vf vgelu_slope(vf x) {
  const vf a = vmin(vset(6.0F), vabs(x));
  const vf s =
      vpoly(a, 1.70061139e-08F, -5.95781387e-07F, 9.33798037e-06F, -8.72163364e-05F, 0.000548049517F, -0.00249827444F,
            0.00878123567F, -0.0251730476F, 0.0616931431F, -0.132707208F, 0.249951839F, -0.797881246F, 0.49999997F);
  const vf h = s * vexp_of_bounded(-0.5F * a * a);
  return x < 0.0F ? h : 1.0F - h;
}

// (1 + tanh(u)) / 2 = sigmoid(2 u), 2 u = 2 sqrt(2 / pi) (x + 0.044715 x^3)
constexpr float kGeluLinear = 1.59576912F;
constexpr float kGeluCubic = 1.59576912F * 0.044715F;
NEAP_VM vf vgelu_tanh(vf x) {
  const vf lower = vmax(vset(-16.0F), x);
  return lower * vsigmoid(lower * vfma(lower * lower, vset(kGeluCubic), vset(kGeluLinear)));
}
NEAP_VM vf vgelu_tanh_slope(vf x) {
  const vf bounded = vbound(x, -16.0F, 16.0F);
  const vf square = bounded * bounded;
  const vf s = vsigmoid(bounded * vfma(square, vset(kGeluCubic), vset(kGeluLinear)));
  const vf inner = bounded * vfma(square, vset(3.0F * kGeluCubic), vset(kGeluLinear));
  return vfma(s * (1.0F - s), inner, s);
}

NEAP_VM vf vsilu(vf x) { return vmax(vset(-110.0F), x) * vsigmoid(x); }
NEAP_VM vf vsilu_slope(vf x) {
  const vf bounded = vbound(x, -110.0F, 110.0F);
  const vf s = vsigmoid(bounded);
  return s * vfma(bounded, 1.0F - s, vset(1.0F));
}

// For what is too rare to be worth a polynomial: libm lane by lane.
template <class F>
NEAP_VM vf by_lane(vf x, F f) {
  float lanes[kLanes];
  vstore(lanes, x);
  for (float& lane : lanes) lane = f(lane);
  return vload(lanes);
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS

// Part of vmath.h: elementary functions. Polynomials are minimax fits (Remez, in 40 digits) of the formula beside them.
//
// Relative error below 2.5e-7, denormal results included; NaN, infinities and arguments of any size as in libm.
#pragma once

#include "device/cpu/vmath_vector.h"

namespace neap::NEAP_ISA_NS {
namespace {

// ln 2 in two pieces: n * kLn2High is exact for |n| < 2^12.
constexpr float kLn2High = 0x1.63p-1F;
constexpr float kLn2Low = -0x1.bd0106p-13F;

// 2^n for n in [-126, 127].
NEAP_VM vf vexp2_int(vi n) { return as_float((n + 127) << 23); }

// x = n ln2 + r, |r| <= ln2 / 2; e^r = 1 + r + r^2 Q(r).
NEAP_VM vf vexp(vf x) {
  // Beyond these the result is 0 or inf in f32 anyway; NaN passes both.
  const vf bounded = vmax(vset(-105.0F), vmin(vset(89.0F), x));
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
  constexpr float kShift = 0x1.8p23F;
  const vf shifted = vfma(bounded, vset(0x1.715476p0F), vset(kShift));
  const vf n = shifted - kShift;
  const vi whole = reinterpret_cast<vi>(as_bits(shifted) - as_bits(vset(kShift)));
  const vf r = vfma(n, vset(-kLn2Low), vfma(n, vset(-kLn2High), bounded));
  const vf q = vpoly(r, 0.00138144777F, 0.00836878084F, 0.0416683927F, 0.166665196F, 0.49999994F);
  const vf e = vfma(r * r, q, r) + 1.0F;
  // In two factors, so that denormal results are rounded once and 2^128 is not needed.
  const vi half = whole >> 1;
  return e * vexp2_int(half) * vexp2_int(whole - half);
}

// x = 2^e (1 + f), 2/3 <= 1 + f < 4/3; log(1 + f) = f - f^2/2 + f^3 P(f).
NEAP_VM vf vlog(vf x) {
  const vi tiny = x < 0x1p-126F;
  const vu bits = as_bits(tiny ? x * 0x1p24F : x);
  const vu two_thirds = vset(0x3F2AAAABU);
  const vi exponent = reinterpret_cast<vi>(bits - two_thirds) >> 23;
  const vf f = as_float(bits - (reinterpret_cast<vu>(exponent) << 23)) - 1.0F;
  const vf e = to_float(exponent) - (tiny ? vset(24.0F) : vset(0.0F));
  const vf p = vpoly(f, -0.128911987F, 0.139842913F, -0.121843591F, 0.140059039F, -0.16680482F, 0.200104028F,
                     -0.249997973F, 0.333332151F);
  const vf square = f * f;
  const vf tail = vfma(e, vset(kLn2Low), vfma(square, vset(-0.5F), square * f * p));
  const vf y = vfma(e, vset(kLn2High), f + tail);
  const vf infinity = vset(__builtin_inff());
  const vf edge = x == 0.0F ? -infinity : (x == infinity ? x : vset(__builtin_nanf("")));
  return (x > 0.0F) & (x < infinity) ? y : edge;
}

// |x| < 0.625: x + x^3 P(x^2); else 1 - 2 / (e^2|x| + 1).
NEAP_VM vf vtanh(vf x) {
  const vf z = x * x;
  const vf p = vpoly(z, -0.00570498547F, 0.0206390861F, -0.0537397154F, 0.133314416F, -0.333332807F);
  const vf small = vfma(x * z, p, x);
  const vf size = vabs(x);
  const vf large = 1.0F - 2.0F / (vexp(2.0F * size) + 1.0F);
  return vcopysign(size < 0.625F ? small : large, x);
}

// From e^-|x|, which never overflows: far below zero the result is e^x itself.
NEAP_VM vf vsigmoid(vf x) {
  const vf e = vexp(-vabs(x));
  const vf y = 1.0F / (1.0F + e);
  return x < 0.0F ? e * y : y;
}

// |x| < 1: x + x P(x^2); else 1 - e^-Q(|x|), where Q = -log erfc; from 4 on the result is 1 in f32.
NEAP_VM vf verf(vf x) {
  const vf z = x * x;
  const vf p = vpoly(z, 7.85386801e-05F, -0.000801019545F, 0.00518832775F, -0.0268538129F, 0.112835854F, -0.37612626F,
                     0.128379166F);
  const vf small = vfma(x, p, x);
  const vf size = vabs(x);
  const vf q = vpoly(vmin(vset(4.0F), size), -0.000186374484F, 0.0029476136F, -0.021837892F, 0.103106409F, 0.638145208F,
                     1.12708902F, 0.00034157437F);
  const vf large = 1.0F - vexp(-q);
  return size < 1.0F ? small : vcopysign(large, x);
}

typedef double vd __attribute__((vector_size(4 * kLanes)));  // half as many lanes
typedef float vf_half __attribute__((vector_size(2 * kLanes)));
typedef std::int32_t vi_half __attribute__((vector_size(2 * kLanes)));

struct Angle {
  vf rest;      // in [-pi/4, pi/4]
  vi quarters;  // x = rest + quarters * pi/2
};
struct HalfAngle {
  vf_half rest;
  vi_half quarters;
};

// In double and with pi/2 in two pieces, so that arguments next to a zero keep their relative accuracy; |x| < 2^20.
NEAP_VM HalfAngle reduce_angle(vf_half x) {
  constexpr double kShift = 0x1.8p52;
  const vd wide = __builtin_convertvector(x, vd);
  const vd n = (wide * 0x1.45f306dc9c883p-1 + kShift) - kShift;
  const vd rest = (wide - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34;
  return {__builtin_convertvector(rest, vf_half), __builtin_convertvector(n, vi_half)};
}

NEAP_VM Angle reduce_angle(vf x) {
  vf_half in[2];
  __builtin_memcpy(in, &x, sizeof x);
  const HalfAngle out[2] = {reduce_angle(in[0]), reduce_angle(in[1])};
  Angle angle;
  const vf_half rest[2] = {out[0].rest, out[1].rest};
  const vi_half quarters[2] = {out[0].quarters, out[1].quarters};
  __builtin_memcpy(&angle.rest, rest, sizeof rest);
  __builtin_memcpy(&angle.quarters, quarters, sizeof quarters);
  return angle;
}

// sin(rest + quarters * pi/2): sin r = r + r^3 S(r^2), cos r = 1 - r^2/2 + r^4 C(r^2).
NEAP_VM vf sine_of(Angle angle) {
  const vf r = angle.rest;
  const vf z = r * r;
  const vf sine = vfma(r * z, vpoly(z, -0.00019515217F, 0.0083321603F, -0.166666552F), r);
  const vf cosine = vfma(z * z, vpoly(z, 2.44331059e-05F, -0.00138873153F, 0.0416666456F), 1.0F - 0.5F * z);
  const vf y = (angle.quarters & 1) != 0 ? cosine : sine;
  const vu sign = reinterpret_cast<vu>(angle.quarters & 2) << 30;
  return as_float(as_bits(y) ^ sign);
}

// A lane of a size that the reduction does not cover, or not finite, takes libm's way.
NEAP_VM bool any_huge(vf x) { return !(vmax_lanes(vabs(x) < 0x1p20F ? vf{} : vset(1.0F)) == 0.0F); }

NEAP_VM vf vsin(vf x) {
  vf y = sine_of(reduce_angle(x));
  if (__builtin_expect(any_huge(x), 0)) {
    for (int i = 0; i < kLanes; ++i) y[i] = static_cast<float>(__builtin_sin(static_cast<double>(x[i])));
  }
  return x == 0.0F ? x : y;
}

NEAP_VM vf vcos(vf x) {
  Angle angle = reduce_angle(x);
  angle.quarters += 1;
  vf y = sine_of(angle);
  if (__builtin_expect(any_huge(x), 0)) {
    for (int i = 0; i < kLanes; ++i) y[i] = static_cast<float>(__builtin_cos(static_cast<double>(x[i])));
  }
  return y;
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS

// Part of vmath.h: vector types, loads and stores, arithmetic, sums over the lanes.
#pragma once

#ifndef NEAP_ISA_NS
#error "vmath is for *_simd.cc files, which are compiled once for each instruction set"
#endif

#include <immintrin.h>

#include <cstdint>

#define NEAP_VM [[gnu::always_inline]] inline

namespace neap::NEAP_ISA_NS {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

// Operators, comparisons (all ones where true) and `mask ? a : b` are the compiler's; a scalar operand is broadcast.
typedef float vf __attribute__((vector_size(4 * kLanes)));
typedef std::int32_t vi __attribute__((vector_size(4 * kLanes)));
typedef std::uint32_t vu __attribute__((vector_size(4 * kLanes)));
typedef std::uint16_t vh __attribute__((vector_size(2 * kLanes)));

// The same bits under another type.
NEAP_VM vf as_float(vu bits) { return reinterpret_cast<vf>(bits); }
NEAP_VM vf as_float(vi bits) { return reinterpret_cast<vf>(bits); }
NEAP_VM vu as_bits(vf x) { return reinterpret_cast<vu>(x); }

// The same values under another type; to_int cuts towards zero.
NEAP_VM vf to_float(vi x) { return __builtin_convertvector(x, vf); }
NEAP_VM vi to_int(vf x) { return __builtin_convertvector(x, vi); }

NEAP_VM vf vset(float x) { return x - vf{}; }
NEAP_VM vi vset(std::int32_t x) { return x - vi{}; }
NEAP_VM vu vset(std::uint32_t x) { return x - vu{}; }

// 0, 1, 2, ...
NEAP_VM vi vlane() {
#if defined(__AVX512F__)
  return vi{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif defined(__AVX2__)
  return vi{0, 1, 2, 3, 4, 5, 6, 7};
#else
  return vi{0, 1, 2, 3};
#endif
}

// Unaligned.
template <class V, class T>
NEAP_VM V vload_as(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
NEAP_VM vf vload(const float* p) { return vload_as<vf>(p); }
NEAP_VM vi vload(const std::int32_t* p) { return vload_as<vi>(p); }
NEAP_VM vu vload(const std::uint32_t* p) { return vload_as<vu>(p); }
NEAP_VM void vstore(float* p, vf v) { __builtin_memcpy(p, &v, sizeof v); }
NEAP_VM void vstore(std::int32_t* p, vi v) { __builtin_memcpy(p, &v, sizeof v); }
NEAP_VM void vstore(std::uint32_t* p, vu v) { __builtin_memcpy(p, &v, sizeof v); }

// The first n lanes, 0 <= n <= kLanes: memory beyond them is not touched; the other lanes read as `fill`.
#if defined(__AVX512F__)
// The forms with a mask of all lanes compile to the plain instruction, whose own intrinsic draws a false warning from
// g++ 12 (an undefined source of the lanes masked out).
constexpr __mmask16 kAllLanes = 0xFFFF;
NEAP_VM __mmask16 vfirst(std::int64_t n) { return static_cast<__mmask16>((1U << n) - 1U); }
NEAP_VM vf vload_n(const float* p, std::int64_t n, float fill = 0) {
  return _mm512_mask_loadu_ps(vset(fill), vfirst(n), p);
}
NEAP_VM void vstore_n(float* p, vf v, std::int64_t n) { _mm512_mask_storeu_ps(p, vfirst(n), v); }
#elif defined(__AVX2__)
NEAP_VM vi vfirst(std::int64_t n) { return vlane() < static_cast<std::int32_t>(n); }
NEAP_VM vf vload_n(const float* p, std::int64_t n, float fill = 0) {
  const vi mask = vfirst(n);
  return mask ? vf(_mm256_maskload_ps(p, reinterpret_cast<__m256i>(mask))) : vset(fill);
}
NEAP_VM void vstore_n(float* p, vf v, std::int64_t n) {
  _mm256_maskstore_ps(p, reinterpret_cast<__m256i>(vfirst(n)), v);
}
#else
NEAP_VM vf vload_n(const float* p, std::int64_t n, float fill = 0) {
  float lanes[kLanes] = {fill, fill, fill, fill};
  for (std::int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return vload(lanes);
}
NEAP_VM void vstore_n(float* p, vf v, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) p[i] = v[i];
}
#endif

// vfma(a, b, c) = a * b + c, rounded once where the hardware can.
// vmin and vmax give b if either is NaN. vnearest rounds to the nearest integer, ties to even.
#if defined(__AVX512F__)
NEAP_VM vf vfma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
NEAP_VM vf vmin(vf a, vf b) { return _mm512_maskz_min_ps(kAllLanes, a, b); }
NEAP_VM vf vmax(vf a, vf b) { return _mm512_maskz_max_ps(kAllLanes, a, b); }
NEAP_VM vf vsqrt(vf x) { return _mm512_maskz_sqrt_ps(kAllLanes, x); }
NEAP_VM vi vnearest(vf x) { return reinterpret_cast<vi>(_mm512_maskz_cvtps_epi32(kAllLanes, x)); }
#elif defined(__AVX2__)
NEAP_VM vf vfma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
NEAP_VM vf vmin(vf a, vf b) { return _mm256_min_ps(a, b); }
NEAP_VM vf vmax(vf a, vf b) { return _mm256_max_ps(a, b); }
NEAP_VM vf vsqrt(vf x) { return _mm256_sqrt_ps(x); }
NEAP_VM vi vnearest(vf x) { return reinterpret_cast<vi>(_mm256_cvtps_epi32(x)); }
#else
NEAP_VM vf vfma(vf a, vf b, vf c) { return a * b + c; }
NEAP_VM vf vmin(vf a, vf b) { return _mm_min_ps(a, b); }
NEAP_VM vf vmax(vf a, vf b) { return _mm_max_ps(a, b); }
NEAP_VM vf vsqrt(vf x) { return _mm_sqrt_ps(x); }
NEAP_VM vi vnearest(vf x) { return reinterpret_cast<vi>(_mm_cvtps_epi32(x)); }
#endif

NEAP_VM vf vselect(vi mask, vf a, vf b) { return mask ? a : b; }
NEAP_VM vf vabs(vf x) { return as_float(as_bits(x) & 0x7FFFFFFFU); }
// |magnitude| with the sign of `sign`.
NEAP_VM vf vcopysign(vf magnitude, vf sign) {
  return as_float((as_bits(magnitude) & 0x7FFFFFFFU) | (as_bits(sign) & 0x80000000U));
}
NEAP_VM vf vrsqrt(vf x) { return 1.0F / vsqrt(x); }

// Over all lanes, by halves: lane i with lane i + kLanes/2, and so on.
NEAP_VM float vsum_lanes(vf v) {
#pragma GCC unroll 4
  for (int half = kLanes / 2; half > 0; half /= 2) v = v + __builtin_shuffle(v, vlane() ^ half);
  return v[0];
}
NEAP_VM float vmax_lanes(vf v) {
#pragma GCC unroll 4
  for (int half = kLanes / 2; half > 0; half /= 2) v = vmax(v, __builtin_shuffle(v, vlane() ^ half));
  return v[0];
}

// Coefficients from the highest power down.
NEAP_VM vf vpoly(vf x, float c) { return vset(c); }
template <class... Rest>
NEAP_VM vf vhorner(vf x, vf sum, Rest... rest) {
  ((sum = vfma(sum, x, vset(static_cast<float>(rest)))), ...);
  return sum;
}
template <class... Rest>
NEAP_VM vf vpoly(vf x, float highest, Rest... rest) {
  return vhorner(x, vset(highest), rest...);
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS

// Part of vmath.h: bf16 and f16 as storage types. Rounding is to nearest, ties to even; NaN stays NaN (made quiet),
// what is too large becomes infinite, f16's denormals are exact.
#pragma once

#include "device/cpu/vmath_vector.h"

namespace neap::NEAP_ISA_NS {
namespace {

// Each to 32 bits. (g++ 12 makes six instructions of the general form for AVX-512.)
#if defined(__AVX512F__)
NEAP_VM vu widened_bits(vh h) {
  return reinterpret_cast<vu>(_mm512_maskz_cvtepu16_epi32(kAllLanes, reinterpret_cast<__m256i>(h)));
}
#else
NEAP_VM vu widened_bits(vh h) { return __builtin_convertvector(h, vu); }
#endif

NEAP_VM vf from_bf16(vh h) { return as_float(widened_bits(h) << 16); }

NEAP_VM vh to_bf16(vf x) {
  const vu bits = as_bits(x);
  const vu rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const vu quiet_nan = (bits >> 16) | 0x40U;
  return __builtin_convertvector(x == x ? rounded : quiet_nan, vh);
}

#if defined(__AVX512F__)
NEAP_VM vf from_f16(vh h) { return _mm512_maskz_cvtph_ps(kAllLanes, reinterpret_cast<__m256i>(h)); }
NEAP_VM vh to_f16(vf x) { return reinterpret_cast<vh>(_mm512_maskz_cvtps_ph(kAllLanes, x, _MM_FROUND_TO_NEAREST_INT)); }
#elif defined(__F16C__)
NEAP_VM vf from_f16(vh h) { return _mm256_cvtph_ps(reinterpret_cast<__m128i>(h)); }
NEAP_VM vh to_f16(vf x) { return reinterpret_cast<vh>(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)); }
#else
NEAP_VM vf from_f16(vh h) {
  const vu wide = __builtin_convertvector(h, vu);
  const vu size = (wide & 0x7FFFU) << 13;
  // Exponent bias 15 to 127; exact for denormals too.
  const vu finite = as_bits(as_float(size) * 0x1p112F);
  const vu quiet = size > (0x7C00U << 13) ? vset(0x00400000U) : vset(0U);
  const vu bits = size >= (0x7C00U << 13) ? size | 0x7F800000U | quiet : finite;
  return as_float(bits | ((wide & 0x8000U) << 16));
}

NEAP_VM vh to_f16(vf x) {
  const vu bits = as_bits(x);
  const vu size = bits & 0x7FFFFFFFU;
  const vu normal = (size - (112U << 23) + 0xFFFU + ((size >> 13) & 1U)) >> 13;
  // Adding 0.5 rounds at 2^-24, f16's smallest denormal.
  const vu denormal = as_bits(as_float(size) + 0.5F) - 0x3F000000U;
  const vu nan = 0x7E00U | ((size >> 13) & 0x3FFU);
  vu half = size < 0x38800000U ? denormal : normal;   // 2^-14
  half = size >= 0x477FF000U ? vset(0x7C00U) : half;  // 65520 and up
  half = size > 0x7F800000U ? nan : half;
  return __builtin_convertvector(half | ((bits >> 16) & 0x8000U), vh);
}
#endif

NEAP_VM vf vload_bf16(const std::uint16_t* p) { return from_bf16(vload_as<vh>(p)); }
NEAP_VM vf vload_f16(const std::uint16_t* p) { return from_f16(vload_as<vh>(p)); }
NEAP_VM void vstore_half(std::uint16_t* p, vh h) { __builtin_memcpy(p, &h, sizeof h); }
NEAP_VM void vstore_bf16(std::uint16_t* p, vf x) { vstore_half(p, to_bf16(x)); }
NEAP_VM void vstore_f16(std::uint16_t* p, vf x) { vstore_half(p, to_f16(x)); }

// The first n lanes, 0 <= n <= kLanes; the others read as 0.
#if defined(__AVX512F__)
NEAP_VM vh vload_half_n(const std::uint16_t* p, std::int64_t n) {
  return reinterpret_cast<vh>(_mm256_maskz_loadu_epi16(vfirst(n), p));
}
NEAP_VM void vstore_half_n(std::uint16_t* p, vh h, std::int64_t n) {
  _mm256_mask_storeu_epi16(p, vfirst(n), reinterpret_cast<__m256i>(h));
}
#else
NEAP_VM vh vload_half_n(const std::uint16_t* p, std::int64_t n) {
  vh h{};
  for (std::int64_t i = 0; i < n; ++i) h[i] = p[i];
  return h;
}
NEAP_VM void vstore_half_n(std::uint16_t* p, vh h, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) p[i] = h[i];
}
#endif
NEAP_VM vf vload_bf16_n(const std::uint16_t* p, std::int64_t n) { return from_bf16(vload_half_n(p, n)); }
NEAP_VM vf vload_f16_n(const std::uint16_t* p, std::int64_t n) { return from_f16(vload_half_n(p, n)); }
NEAP_VM void vstore_bf16_n(std::uint16_t* p, vf x, std::int64_t n) { vstore_half_n(p, to_bf16(x), n); }
NEAP_VM void vstore_f16_n(std::uint16_t* p, vf x, std::int64_t n) { vstore_half_n(p, to_f16(x), n); }

}  // namespace
}  // namespace neap::NEAP_ISA_NS

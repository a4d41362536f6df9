// Part of codec_simd.cc: bytes and bits to lanes and back, over a group, and the groups over the threads.
#pragma once

#include "device/cpu/vmask.h"

namespace neap::NEAP_ISA_NS {
namespace {

constexpr std::int64_t kGroup = 256;
// Sixteen groups: one Philox block has the byte that each of them shares.
constexpr std::int64_t kBlock = 16 * kGroup;
// Below this waking the other threads costs more than they bring.
constexpr std::int64_t kAlone = 4 * kBlock;
// Elements are taken by sixteens, whatever the length of a vector.
constexpr int kRun = 16;

// A set of lanes, as the instruction set likes it: a register of bits, or all ones in a lane.
#if defined(__AVX512F__)
using Lanes = __mmask16;
// Where a or b is NaN.
NEAP_VM Lanes unordered(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
// Where x is neither a nor b, NaN included.
NEAP_VM Lanes differs(vf x, vf a, vf b) {
  return static_cast<Lanes>(_mm512_cmp_ps_mask(x, a, _CMP_NEQ_UQ) & _mm512_cmp_ps_mask(x, b, _CMP_NEQ_UQ));
}
NEAP_VM Lanes either(Lanes a, Lanes b) { return static_cast<Lanes>(a | b); }
NEAP_VM bool any(Lanes lanes) { return lanes != 0; }
#else
using Lanes = vi;
NEAP_VM Lanes unordered(vf a, vf b) { return ~((a == a) & (b == b)); }
NEAP_VM Lanes differs(vf x, vf a, vf b) { return (x != a) & (x != b); }
NEAP_VM Lanes either(Lanes a, Lanes b) { return a | b; }
NEAP_VM bool any(Lanes lanes) { return to_bits(lanes) != 0; }
#endif

// Lanes in 0..255 to bytes and back.
NEAP_VM void store_bytes(std::uint8_t* p, vi q) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm512_maskz_cvtepi32_epi8(kAllLanes, reinterpret_cast<__m512i>(q));
  __builtin_memcpy(p, &bytes, 16);
#elif defined(__AVX2__)
  const __m256i wide = reinterpret_cast<__m256i>(q);
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
  const __m128i bytes = _mm_packus_epi16(words, words);
  __builtin_memcpy(p, &bytes, 8);
#else
  const __m128i words = _mm_packs_epi32(reinterpret_cast<__m128i>(q), reinterpret_cast<__m128i>(q));
  const __m128i bytes = _mm_packus_epi16(words, words);
  __builtin_memcpy(p, &bytes, 4);
#endif
}

NEAP_VM vi load_bytes(const std::uint8_t* p) {
#if defined(__AVX512F__)
  __m128i bytes;
  __builtin_memcpy(&bytes, p, 16);
  return reinterpret_cast<vi>(_mm512_maskz_cvtepu8_epi32(kAllLanes, bytes));
#elif defined(__AVX2__)
  return reinterpret_cast<vi>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  std::int32_t bytes;
  __builtin_memcpy(&bytes, p, 4);
  const __m128i words = _mm_unpacklo_epi8(_mm_cvtsi32_si128(bytes), _mm_setzero_si128());
  return reinterpret_cast<vi>(_mm_unpacklo_epi16(words, _mm_setzero_si128()));
#endif
}

NEAP_VM vi vmax_int(vi a, vi b) { return a > b ? a : b; }

NEAP_VM float vmin_lanes(vf v) {
#pragma GCC unroll 4
  for (int half = kLanes / 2; half > 0; half /= 2) v = vmin(v, __builtin_shuffle(v, vlane() ^ half));
  return v[0];
}

// f(first, count) on consecutive blocks of elements; ORs what it returns.
template <class F>
inline unsigned for_group_blocks(std::int64_t n, F f) {
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
  unsigned flags = 0;
#pragma omp parallel for schedule(static) reduction(| : flags) if (n > kAlone)
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = b * kBlock;
    flags |= f(first, n - first < kBlock ? n - first : kBlock);
  }
  return flags;
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS

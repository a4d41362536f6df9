// Part of vmath.h: Philox 4x32-10 on consecutive counters, the same bits as neap::Philox (core/random.h).
#pragma once

#include "device/cpu/vmath_vector.h"

namespace neap::NEAP_ISA_NS {
namespace {

// Word w of counter index + lane is in word[w][lane].
struct RandomWords {
  vu word[4];
};

struct WideProduct {
  vu high, low;
};

NEAP_VM WideProduct wide_product(vu a, std::uint32_t b) {
  const vu factor = vset(b);
#if defined(__AVX512F__)
  const __m512i x = reinterpret_cast<__m512i>(a), y = reinterpret_cast<__m512i>(factor);
  const vu even = reinterpret_cast<vu>(_mm512_maskz_mul_epu32(0xFF, x, y));
  const vu odd = reinterpret_cast<vu>(_mm512_maskz_mul_epu32(0xFF, _mm512_maskz_srli_epi64(0xFF, x, 32), y));
#elif defined(__AVX2__)
  const __m256i x = reinterpret_cast<__m256i>(a), y = reinterpret_cast<__m256i>(factor);
  const vu even = reinterpret_cast<vu>(_mm256_mul_epu32(x, y));
  const vu odd = reinterpret_cast<vu>(_mm256_mul_epu32(_mm256_srli_epi64(x, 32), y));
#else
  const __m128i x = reinterpret_cast<__m128i>(a), y = reinterpret_cast<__m128i>(factor);
  const vu even = reinterpret_cast<vu>(_mm_mul_epu32(x, y));
  const vu odd = reinterpret_cast<vu>(_mm_mul_epu32(_mm_srli_epi64(x, 32), y));
#endif
  const vi pair = vlane() & ~1;
  const vi upper = vlane() & 1;
  return {__builtin_shuffle(even, odd, reinterpret_cast<vu>(pair + 1 + upper * kLanes)),
          __builtin_shuffle(even, odd, reinterpret_cast<vu>(pair + upper * kLanes))};
}

NEAP_VM RandomWords vphilox(std::uint64_t key, std::uint64_t index, std::uint64_t stream) {
  const vu base = vset(static_cast<std::uint32_t>(index));
  const vu low = base + reinterpret_cast<vu>(vlane());
  const vu carry = reinterpret_cast<vu>(low < base) & 1U;
  RandomWords c = {{low, static_cast<std::uint32_t>(index >> 32) + carry, vset(static_cast<std::uint32_t>(stream)),
                    vset(static_cast<std::uint32_t>(stream >> 32))}};
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const WideProduct a = wide_product(c.word[0], 0xD2511F53U);
    const WideProduct b = wide_product(c.word[2], 0xCD9E8D57U);
    c = {{b.high ^ c.word[1] ^ k0, b.low, a.high ^ c.word[3] ^ k1, a.low}};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

// In [0, 1), 24 bits: neap::unit_float.
NEAP_VM vf vunit_float(vu word) { return to_float(reinterpret_cast<vi>(word >> 8)) * 0x1p-24F; }

// From words of a counter side by side in word[0..3] to the order of RandomStream: vector v, lane l of the result is
// word (v * kLanes + l) % 4 of counter (v * kLanes + l) / 4.
NEAP_VM RandomWords in_stream_order(const RandomWords& r) {
  RandomWords out;
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const vi counter = vlane() / 4 + v * (kLanes / 4);
    const vi odd = (vlane() & 1) * kLanes;
    const vu pick = reinterpret_cast<vu>(counter + odd);
    const vu first = __builtin_shuffle(r.word[0], r.word[1], pick);
    const vu last = __builtin_shuffle(r.word[2], r.word[3], pick);
    out.word[v] = (vlane() & 2) != 0 ? last : first;
  }
  return out;
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS

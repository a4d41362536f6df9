// Part of vmath.h: Philox 4x32-10 on consecutive counters, the same bits as neap::Philox (core/random.h).
#pragma once

#include "device/cpu/vmath_vector.h"

namespace neap::NEAP_ISA_NS {
namespace {

// Word w of counter index + lane is in word[w][lane].
struct RandomWords {
  vu word[4];
};

// A counter in each 64-bit lane: a product of 32-bit words then lies where it is wanted, and no lane is ever moved.
// Only the lower halves count; what stands above them is never read.
typedef std::uint64_t vq __attribute__((vector_size(4 * kLanes)));

NEAP_VM vq low_product(vq a, vq b) {
#if defined(__AVX512F__)
  return reinterpret_cast<vq>(_mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<vq>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#else
  return reinterpret_cast<vq>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#endif
}

NEAP_VM vq xor3(vq a, vq b, vq c) {
#if defined(__AVX512F__)
  return reinterpret_cast<vq>(_mm512_ternarylogic_epi64(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b),
                                                        reinterpret_cast<__m512i>(c), 0x96));
#else
  return a ^ b ^ c;
#endif
}

// 0, 2, 4, ...
NEAP_VM vq even_lanes() {
#if defined(__AVX512F__)
  return vq{0, 2, 4, 6, 8, 10, 12, 14};
#elif defined(__AVX2__)
  return vq{0, 2, 4, 6};
#else
  return vq{0, 2};
#endif
}

NEAP_VM RandomWords vphilox(std::uint64_t key, std::uint64_t index, std::uint64_t stream) {
  vq c[4][2];  // of counters index, index + 2, ... and index + 1, index + 3, ...
  for (int odd = 0; odd < 2; ++odd) {
    c[0][odd] = index + static_cast<std::uint64_t>(odd) + even_lanes();
    c[1][odd] = c[0][odd] >> 32;
    c[2][odd] = stream - vq{};
    c[3][odd] = (stream >> 32) - vq{};
  }
  vq k0 = key - vq{};
  vq k1 = (key >> 32) - vq{};
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; ++odd) {
      const vq a = low_product(c[0][odd], 0xD2511F53U - vq{});
      const vq b = low_product(c[2][odd], 0xCD9E8D57U - vq{});
      c[0][odd] = xor3(b >> 32, c[1][odd], k0);
      c[1][odd] = b;
      c[2][odd] = xor3(a >> 32, c[3][odd], k1);
      c[3][odd] = a;
    }
    k0 = k0 + 0x9E3779B9U;
    k1 = k1 + 0xBB67AE85U;
  }
  RandomWords words;
  for (int w = 0; w < 4; ++w) {
    words.word[w] = reinterpret_cast<vu>((c[w][0] & 0xFFFFFFFFU) | (c[w][1] << 32));
  }
  return words;
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

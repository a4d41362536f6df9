// The random numbers of core/random.h on the device: the same function, so the same numbers.
#pragma once

#include <cstdint>

namespace neap {

__device__ inline std::uint64_t device_mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a * 0x9E3779B97F4A7C15ULL + b + 0x632BE59BD9B4E019ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// What ops draw with: rng is {seed, step, index of the first element}.
__device__ inline std::uint64_t draw_key(const std::uint64_t* rng, std::uint64_t key) {
  return device_mix(device_mix(rng[0], key), rng[1]);
}

// Number `index` of a stream of 32-bit words, in [0, 1) with 24 bits: Philox 4x32-10 gives four a block.
__device__ inline float draw_unit(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t block = index / 4;
  std::uint32_t c0 = static_cast<std::uint32_t>(block);
  std::uint32_t c1 = static_cast<std::uint32_t>(block >> 32);
  std::uint32_t c2 = 0;
  std::uint32_t c3 = 0;
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint32_t a_high = __umulhi(0xD2511F53U, c0);
    const std::uint32_t a_low = 0xD2511F53U * c0;
    const std::uint32_t b_high = __umulhi(0xCD9E8D57U, c2);
    const std::uint32_t b_low = 0xCD9E8D57U * c2;
    c0 = b_high ^ c1 ^ k0;
    c1 = b_low;
    c2 = a_high ^ c3 ^ k1;
    c3 = a_low;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  const int word = static_cast<int>(index % 4);
  const std::uint32_t value = word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;
  return static_cast<float>(value >> 8) * 0x1p-24F;
}

// y of dropout: what is drawn below p is gone.
__device__ inline float dropped(float x, const std::uint64_t* rng, std::uint64_t key, std::uint64_t i, float p,
                                float scale) {
  return draw_unit(draw_key(rng, key), rng[2] + i) < p ? 0 : x * scale;
}

}  // namespace neap

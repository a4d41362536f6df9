// Counter-based random numbers (Philox 4x32-10, Salmon et al. 2011): a number is a function of its key and its index,
// so recomputation, any order and any partition draw the same.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace neap {

struct Philox {
  std::uint64_t key = 0;

  // Four 32-bit words for counter (index, stream).
  std::array<std::uint32_t, 4> operator()(std::uint64_t index, std::uint64_t stream = 0) const {
    std::array<std::uint32_t, 4> c = {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                                      static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)};
    std::uint32_t k0 = static_cast<std::uint32_t>(key);
    std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = 0xD2511F53ULL * c[0];
      const std::uint64_t b = 0xCD9E8D57ULL * c[2];
      c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
           static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    return c;
  }
};

// Mixes words into a key: order matters.
std::uint64_t mix(std::uint64_t a, std::uint64_t b);
std::uint64_t hash_bytes(const void* data, std::size_t size, std::uint64_t seed = 0);
std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0);

// In [0, 1), 24 bits.
inline float unit_float(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24F; }

// A sequential view of one stream, for shuffles and initial weights.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t key, std::uint64_t stream = 0) : philox_{key}, stream_(stream) {}
  std::uint32_t next();
  std::uint64_t below(std::uint64_t bound);  // uniform in [0, bound)
  double uniform();                          // [0, 1)
  double normal();

 private:
  Philox philox_;
  std::uint64_t stream_;
  std::uint64_t index_ = 0;
  std::array<std::uint32_t, 4> words_{};
  int left_ = 0;
};

}  // namespace neap

#include "pool/checksum_simd.h"

#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

namespace neap::NEAP_ISA_NS {
namespace {

constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15ULL;
constexpr int kLanes = 4;  // independent of each other, so that the latency of one word is hidden

std::uint64_t word_at(const std::byte* data) {
  std::uint64_t word = 0;
  __builtin_memcpy(&word, data, sizeof word);
  return word;
}

#ifdef __SSE4_2__
// CRC-32C, which the processor computes: finds every change of up to 32 bits in a row.
std::uint64_t step(std::uint64_t lane, std::uint64_t word) { return _mm_crc32_u64(lane, word); }
#else
std::uint64_t step(std::uint64_t lane, std::uint64_t word) {
  lane = (lane ^ word) * kOdd;
  return lane ^ (lane >> 32U);
}
#endif

std::uint64_t sum(const std::byte* data, std::int64_t bytes) {
  std::uint64_t lane[kLanes] = {1, 2, 3, 4};
  std::int64_t at = 0;
  for (; at + 8 * kLanes <= bytes; at += 8 * kLanes) {
    for (int i = 0; i < kLanes; ++i) lane[i] = step(lane[i], word_at(data + at + 8 * i));
  }
  std::uint64_t out = static_cast<std::uint64_t>(bytes);
  for (const std::uint64_t l : lane) {
    out = (out ^ l) * kOdd;
    out ^= out >> 32U;
  }
  for (; at < bytes; ++at) {
    out = (out ^ static_cast<std::uint64_t>(data[at])) * kOdd;
    out ^= out >> 32U;
  }
  return out;
}

}  // namespace

const ChecksumTable& checksum_table() {
  static constexpr ChecksumTable table{sum};
  return table;
}

}  // namespace neap::NEAP_ISA_NS

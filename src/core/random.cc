#include "core/random.h"

#include <cmath>
#include <cstring>
#include <numbers>

namespace neap {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  // The finaliser of SplitMix64 over a combination of both words.
  std::uint64_t z = a * 0x9E3779B97F4A7C15ULL + b + 0x632BE59BD9B4E019ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::uint64_t hash_bytes(const void* data, std::size_t size, std::uint64_t seed) {
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint64_t h = mix(seed, size);
  for (; size >= 8; size -= 8, p += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, p, 8);
    h = mix(h, word);
  }
  std::uint64_t word = 0;
  std::memcpy(&word, p, size);
  return mix(h, word);
}

std::uint64_t hash_text(std::string_view text, std::uint64_t seed) {
  return hash_bytes(text.data(), text.size(), seed);
}

std::uint32_t RandomStream::next() {
  if (left_ == 0) {
    words_ = philox_(index_++, stream_);
    left_ = 4;
  }
  return words_[static_cast<std::size_t>(4 - left_--)];
}

std::uint64_t RandomStream::below(std::uint64_t bound) {
  const std::uint64_t word = (static_cast<std::uint64_t>(next()) << 32) | next();
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(word) * bound) >> 64);
}

double RandomStream::uniform() {
  const std::uint64_t word = (static_cast<std::uint64_t>(next()) << 32) | next();
  return static_cast<double>(word >> 11) * 0x1p-53;
}

double RandomStream::normal() {
  const double u = 1.0 - uniform();  // (0, 1]
  const double v = uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace neap

// Tensors for the tests of the codec: smooth, hostile, of any size.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "precision/codec.h"

namespace neap::precision {

using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

inline Floats normal_tensor(std::int64_t n, std::uint64_t seed, double mean = 0, double deviation = 1) {
  RandomStream random(seed);
  Floats x(static_cast<std::size_t>(n));
  for (float& v : x) v = static_cast<float>(mean + deviation * random.normal());
  return x;
}

// Any bit pattern: denormals, huge values, NaN and infinities among them.
inline Floats wild_tensor(std::int64_t n, std::uint64_t seed) {
  RandomStream random(seed);
  Floats x(static_cast<std::size_t>(n));
  for (float& v : x) {
    const std::uint32_t bits = random.next();
    std::memcpy(&v, &bits, 4);
  }
  return x;
}

// Named tensors of n elements that break careless codecs.
inline std::vector<std::pair<std::string, Floats>> hostile_tensors(std::int64_t n, std::uint64_t seed) {
  const auto some = [&](float rare, float usual) {
    Floats x = normal_tensor(n, seed, 0, usual);
    for (std::size_t i = 0; i < x.size(); i += 97) x[i] = rare;
    return x;
  };
  constexpr float kInf = std::numeric_limits<float>::infinity();
  Floats signed_zeros(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < signed_zeros.size(); ++i) signed_zeros[i] = i % 3 == 0 ? -0.0F : 0.0F;
  Floats relu = normal_tensor(n, seed);
  for (float& v : relu) v = std::max(v, 0.0F);
  Floats two = relu;
  for (float& v : two) v = v > 0 ? 0.7F : -0.3F;
  return {{"smooth", normal_tensor(n, seed)},
          {"shifted", normal_tensor(n, seed, 1000, 0.01)},
          {"relu", relu},
          {"two values", two},
          {"constant", Floats(static_cast<std::size_t>(n), 3.1F)},
          {"zeros", signed_zeros},
          {"denormal", some(1e-40F, 1e-41F)},
          {"tiny", normal_tensor(n, seed, 0, 1e-33)},
          {"1e38 beside 1e-38", some(1e38F, 1e-38F)},
          {"extremes", some(-3.4e38F, 1e37F)},
          {"beyond fp16", some(70000, 1)},
          {"beyond bf16", some(3.4e38F, 1)},
          {"nan", some(std::nanf(""), 1)},
          {"infinite", some(kInf, 1)},
          {"minus infinite", some(-kInf, 1)},
          {"wild", wild_tensor(n, seed)}};
}

struct Encoded {
  Bytes payload;
  Bytes history;
  unsigned flags = 0;
  friend bool operator==(const Encoded&, const Encoded&) = default;
};

inline Encoded room_for(Level level, std::int64_t n) {
  return {Bytes(static_cast<std::size_t>(payload_bytes(level, n)), std::byte{0xA5}),
          Bytes(static_cast<std::size_t>(history_bytes(level, n)), std::byte{0xA5}), 0};
}

inline Encoded encoded(Level level, const Floats& x, const CodecKey& key) {
  const auto n = static_cast<std::int64_t>(x.size());
  Encoded e = room_for(level, n);
  e.flags = encode(level, x.data(), n, key, e.payload.data(), e.history.data());
  return e;
}

inline Floats decoded(Level level, const Encoded& e, std::int64_t n) {
  Floats y(static_cast<std::size_t>(n));
  decode(level, e.payload.data(), e.history.data(), n, y.data());
  return y;
}

inline Floats round_trip(Level level, const Floats& x, const CodecKey& key) {
  return decoded(level, encoded(level, x, key), static_cast<std::int64_t>(x.size()));
}

}  // namespace neap::precision

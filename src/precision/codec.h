// Tensors of floats in fewer bits and back.
//
// FP16 and BF16 round to nearest, ties to even. The integer levels cut a tensor into groups of 256 elements, each with
// its own zero point lo (the least value) and scale = (greatest - least) / steps:
//   q = floor((x - lo) / scale + u),  x' = lo + q * scale,  u uniform in [0, 1).
// E x' = x, to 2^-17 of a step: stochastic rounding is unbiased. Exact are constant groups (the sign of zero apart),
// values on the grid, zeros in a group whose least value is zero, and at kBit every group of at most two values.
//
// u is counter-based: a function of (seed, step, tensor, index of the element). Every instruction set, every number of
// threads and the reference give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "precision/level.h"

namespace neap::precision {

// What encode found; several may be set.
enum EncodeFlag : unsigned {
  kClean = 0,
  kNan = 1,
  kInfinite = 2,
  kOverflow = 4,   // a finite value, or a group's range, is beyond the level: see codec.cc
  kUnderflow = 8,  // a whole group that is not constant lies below the level's smallest steps
  kInexact = 16,   // kBit only: some group has more than two values
};

// The tensor must be kept in FP32: what was written decodes without a crash, but not to the tensor.
constexpr bool must_stay_exact(unsigned flags) { return (flags & (kNan | kInfinite | kOverflow | kUnderflow)) != 0; }

enum class Rounding : std::uint8_t {
  kStochastic,
  kNearest,  // biased; to compare with
};

struct CodecKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t tensor = 0;
  Rounding rounding = Rounding::kStochastic;
};

// Into one block of encoded_bytes. Blocks need no alignment, and must not overlap `src`. Returns EncodeFlags.
[[nodiscard]] unsigned encode(Level level, const float* src, std::int64_t elements, const CodecKey& key,
                              std::byte* dst);
void decode(Level level, const std::byte* src, std::int64_t elements, float* dst);

// With the history in a buffer of its own (history_bytes; may be null for levels without groups).
[[nodiscard]] unsigned encode(Level level, const float* src, std::int64_t elements, const CodecKey& key,
                              std::byte* payload, std::byte* history);
void decode(Level level, const std::byte* payload, const std::byte* history, std::int64_t elements, float* dst);

// The same by slow and obvious loops, on one thread.
[[nodiscard]] unsigned encode_ref(Level level, const float* src, std::int64_t elements, const CodecKey& key,
                                  std::byte* payload, std::byte* history);
void decode_ref(Level level, const std::byte* payload, const std::byte* history, std::int64_t elements, float* dst);

// Philox's key for a tensor of a step.
std::uint64_t philox_key(const CodecKey& key);

}  // namespace neap::precision

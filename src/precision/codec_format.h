// Numbers that the kernels and the reference of the codec share. Constants only: *_simd.cc files include it.
#pragma once

#include <cstdint>

namespace neap::precision {

// A position on a group's grid is a whole number of 2^-16 steps, to which 16 random bits are added.
constexpr float kFine = 65536.0F;

// An element's 16 random bits: the upper 8 are its own, the lower 8 are shared by its group. An element's number is
// then uniform over 2^16 values at half the price; what two elements of a group have in common changes their covariance
// by less than 2^-18 steps squared. Own: byte (e / 16) % 4 of word e / 64 of Philox block (group * 16 + e % 16) of
// stream 0, for element e of the group. Shared: byte `group` % 16 of block group / 16 of stream 1.
constexpr std::uint64_t kOwnStream = 0;
constexpr std::uint64_t kSharedStream = 1;

// A wider group is reported: the square of its range, hence its variance, would not fit into a float.
constexpr float kMaxRange = 0x1p64F;
// A finer scale is reported and replaced by this one: kFine / scale would not fit into a float.
constexpr float kMinScale = 0x1p-110F;

// |x| as bits, from which on rounding to nearest gives infinity: 65520 for FP16, half a step beyond the greatest BF16.
constexpr std::uint32_t kFp16Overflow = 0x477FF000U;
constexpr std::uint32_t kBf16Overflow = 0x7F7F8000U;
// A group is reported when its greatest |x| is not zero and below: FP16's smallest denormal, BF16's smallest normal.
constexpr std::uint32_t kFp16Underflow = 0x33800000U;
constexpr std::uint32_t kBf16Underflow = 0x00800000U;

}  // namespace neap::precision

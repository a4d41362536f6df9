// Products of pairs of bf16, for *_simd.cc files: lane i of a and b has two numbers, the earlier one in its low half.
#pragma once

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

#if defined(__AVX512F__)
// sum + a.low * b.low + a.high * b.high; numbers too small for a normal f32 count as 0. Only where
// has_bf16_products(): the build for AVX-512 does not ask for the instruction.
NEAP_VM vf vdot_pairs(vf sum, vu a, vu b) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}

// Rounded to nearest even; what is too small for a normal f32 counts as 0.
NEAP_VM vh vround_bf16(vf x) {
  vh half;
  __asm__("vcvtneps2bf16 %1, %0" : "=v"(half) : "v"(x));
  return half;
}
#endif

// Pairs (low, high) of two vectors, rounded.
NEAP_VM vu vpairs(vh low, vh high) { return widened_bits(low) | (widened_bits(high) << 16); }

}  // namespace
}  // namespace neap::NEAP_ISA_NS

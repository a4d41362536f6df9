// Masks of vectors as bits, and back. For *_simd.cc files, like vmath.h.
#pragma once

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

// One bit a lane.
NEAP_VM unsigned to_bits(vi mask) {
#if defined(__AVX512F__)
  return _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask));
#elif defined(__AVX2__)
  return static_cast<unsigned>(_mm256_movemask_ps(as_float(mask)));
#else
  return static_cast<unsigned>(_mm_movemask_ps(as_float(mask)));
#endif
}

NEAP_VM vi to_lanes(unsigned bits) { return ((static_cast<std::int32_t>(bits) - vi{}) & (1 << vlane())) != 0; }

}  // namespace
}  // namespace neap::NEAP_ISA_NS

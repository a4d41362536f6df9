// Splits a flat range of elements over the threads, for *_simd.cc files only.
#pragma once

#include <cstdint>

#ifndef NEAP_ISA_NS
#error "for *_simd.cc files, which are compiled once for each instruction set"
#endif

namespace neap::NEAP_ISA_NS {
namespace {

// A multiple of every vector's length and of a cache line of bits; small enough to stay in L1.
constexpr std::int64_t kBlock = 4096;
// Below this waking the other threads costs more than they bring.
constexpr std::int64_t kAlone = 4 * kBlock;

// f(first, count) on consecutive blocks.
template <class F>
inline void for_blocks(std::int64_t n, F f) {
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) if (n > kAlone)
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = b * kBlock;
    f(first, n - first < kBlock ? n - first : kBlock);
  }
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS

// For *_simd.cc files only: loads of a row's last, incomplete vector, and of bits as masks.
#pragma once

#include "device/cpu/vmath.h"
#include "ops/batch_norm/columns_simd.h"

namespace neap::NEAP_ISA_NS {
namespace {

// A block of rows and columns that stays in the first-level cache; its float sums are added up in double.
constexpr std::int64_t kBlockRows = 64;
constexpr std::int64_t kBlockColumns = 128;

NEAP_VM std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// How many of the lanes from column c on exist.
NEAP_VM std::int64_t lanes_at(std::int64_t c, std::int64_t columns) {
  return columns - c < kLanes ? columns - c : kLanes;
}
NEAP_VM vf load_lanes(const float* p, std::int64_t n) { return n == kLanes ? vload(p) : vload_n(p, n); }
NEAP_VM void store_lanes(float* p, vf v, std::int64_t n) {
  if (n == kLanes) {
    vstore(p, v);
  } else {
    vstore_n(p, v, n);
  }
}

NEAP_VM vf load_lanes(const std::uint16_t* p, std::int64_t n) {
  return n == kLanes ? vload_bf16(p) : vload_bf16_n(p, n);
}
NEAP_VM void store_lanes(std::uint16_t* p, vf v, std::int64_t n) {
  if (n == kLanes) {
    vstore_bf16(p, v);
  } else {
    vstore_bf16_n(p, v, n);
  }
}

// A table's numbers for the columns from c on.
NEAP_VM vf column(const float* table, std::int64_t c, std::int64_t n, float without) {
  return table == nullptr ? vset(without) : load_lanes(table + c, n);
}

// All ones where bit i, i + 1, ... of the mask is set.
NEAP_VM vi mask_lanes(const std::uint8_t* mask, std::int64_t i, std::int64_t n) {
  const std::int64_t shift = i & 7;
  std::uint32_t bits = 0;
  if (shift == 0 && n == 16) {
    std::uint16_t two = 0;
    __builtin_memcpy(&two, mask + (i >> 3), sizeof two);
    bits = two;
  } else {
    for (std::int64_t b = 0; b <= (shift + n - 1) >> 3; ++b) bits |= std::uint32_t{mask[(i >> 3) + b]} << (8 * b);
    bits >>= shift;
  }
  return (vset(static_cast<std::int32_t>(bits)) & (vset(1) << vlane())) != 0;
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS

// Reductions along a row or across vectors of columns, for the *_simd.cc files of softmax and its relatives.
#pragma once

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

// The largest of n > 0 numbers.
NEAP_VM float row_max(const float* x, std::int64_t n) {
  const float lowest = -__builtin_inff();
  vf a = vset(lowest);
  vf b = a;
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    a = vmax(a, vload(x + i));
    b = vmax(b, vload(x + i + kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) a = vmax(a, vload(x + i));
  b = vmax(b, vload_n(x + i, n - i, lowest));
  return vmax_lanes(vmax(a, b));
}

// Calls each(vector, at, lanes) over a row: whole vectors, then what is left with lanes < kLanes (the others = fill).
template <class F>
NEAP_VM void over_row(const float* x, std::int64_t n, float fill, F each) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) each(vload(x + i), i, static_cast<std::int64_t>(kLanes));
  if (i < n) each(vload_n(x + i, n - i, fill), i, n - i);
}

// Sum of e^(x - top) over a row.
NEAP_VM float row_exp_sum(const float* x, std::int64_t n, float top) {
  vf sum{};
  over_row(x, n, -__builtin_inff(), [&](vf v, std::int64_t, std::int64_t lanes) {
    const vf e = vexp(v - top);
    sum = sum + (lanes == kLanes ? e : (vlane() < static_cast<std::int32_t>(lanes) ? e : vf{}));
  });
  return vsum_lanes(sum);
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS

#include "ops/binary/binary_mixed_simd.h"

#include "device/cpu/vmath.h"
#include "ops/elementwise/blocks.h"

namespace neap::NEAP_ISA_NS {
namespace {

NEAP_VM vf load(const float* p, std::int64_t n) { return n == kLanes ? vload(p) : vload_n(p, n); }
NEAP_VM vf load(const std::uint16_t* p, std::int64_t n) { return n == kLanes ? vload_bf16(p) : vload_bf16_n(p, n); }
NEAP_VM void store(float* p, vf x, std::int64_t n) {
  if (n == kLanes) {
    vstore(p, x);
  } else {
    vstore_n(p, x, n);
  }
}
NEAP_VM void store(std::uint16_t* p, vf x, std::int64_t n) {
  if (n == kLanes) {
    vstore_bf16(p, x);
  } else {
    vstore_bf16_n(p, x, n);
  }
}

template <auto F, class A, class B, class R>
void run_as(const void* a, const void* b, void* dst, std::int64_t n) {
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    const A* x = static_cast<const A*>(a) + first;
    const B* y = static_cast<const B*>(b) + first;
    R* z = static_cast<R*>(dst) + first;
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) store(z + i, F(load(x + i, kLanes), load(y + i, kLanes)), kLanes);
    if (i < count) store(z + i, F(load(x + i, count - i), load(y + i, count - i)), count - i);
  });
}

using Half = std::uint16_t;

template <auto F, class A, class B>
void run_into(const void* a, const void* b, void* dst, bool narrow, std::int64_t n) {
  narrow ? run_as<F, A, B, Half>(a, b, dst, n) : run_as<F, A, B, float>(a, b, dst, n);
}

template <auto F>
void run(MixedOperand a, MixedOperand b, void* dst, bool narrow, std::int64_t n) {
  if (a.is_narrow) {
    b.is_narrow ? run_into<F, Half, Half>(a.at, b.at, dst, narrow, n)
                : run_into<F, Half, float>(a.at, b.at, dst, narrow, n);
  } else {
    b.is_narrow ? run_into<F, float, Half>(a.at, b.at, dst, narrow, n)
                : run_into<F, float, float>(a.at, b.at, dst, narrow, n);
  }
}

}  // namespace

const BinaryMixedTable& binary_mixed_table() {
  static constexpr BinaryMixedTable kTable = {run<[](vf x, vf y) { return x + y; }>,
                                              run<[](vf x, vf y) { return x - y; }>,
                                              run<[](vf x, vf y) { return x * y; }>};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS

#include "ops/where/where_simd.h"

#include "ops/elementwise/broadcast_walk.h"

namespace neap::NEAP_ISA_NS {
namespace {

template <class T>
void run(const BroadcastPlan& plan, const std::uint8_t* condition, const void* a, const void* b, void* dst) {
  with_flag(plan.is_repeated(0), [&](auto c_repeats) {
    with_flag(plan.is_repeated(1), [&](auto a_repeats) {
      with_flag(plan.is_repeated(2), [&](auto b_repeats) {
        walk<3>(plan, [=](const std::int64_t* offset, std::int64_t at, std::int64_t n) {
          const std::uint8_t* c = condition + offset[0];
          const T* x = static_cast<const T*>(a) + offset[1];
          const T* y = static_cast<const T*>(b) + offset[2];
          T* z = static_cast<T*>(dst) + at;
#pragma GCC ivdep
          for (std::int64_t i = 0; i < n; ++i) {
            const T yes = x[a_repeats.value ? 0 : i];
            const T no = y[b_repeats.value ? 0 : i];
            z[i] = c[c_repeats.value ? 0 : i] != 0 ? yes : no;
          }
        });
      });
    });
  });
}

}  // namespace

const WhereTable& where_table() {
  static constexpr WhereTable kTable = {
      {run<std::uint8_t>, run<std::uint16_t>, run<std::uint32_t>, run<std::uint64_t>}};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS

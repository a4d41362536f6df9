#include "ops/prelu/prelu_simd.h"

#include "ops/elementwise/broadcast_walk.h"

namespace neap::NEAP_ISA_NS {
namespace {

template <auto F>
void run(const BroadcastPlan& plan, const float* a, const float* b, const float* c, float* dst, PreluArgs args) {
  with_flag(plan.is_repeated(1), [&](auto b_repeats) {
    with_flag(plan.is_repeated(2), [&](auto c_repeats) {
      walk<3>(plan, [=](const std::int64_t* offset, std::int64_t at, std::int64_t n) {
        const float* first = a + offset[0];
        const float* second = b + offset[1];
        const float* third = c + offset[2];
        float* z = dst + at;
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) {
          z[i] = F(first[i], second[b_repeats.value ? 0 : i], third[c_repeats.value ? 0 : i], args);
        }
      });
    });
  });
}

inline float shrunk(float x, PreluArgs k) {
  const float inside = x != x ? x : 0;
  return x < -k.lambd ? x + k.bias : x > k.lambd ? x - k.bias : inside;
}

inline float shrink_share(float dy, float x, PreluArgs k) { return x < -k.lambd || x > k.lambd ? dy : 0; }

}  // namespace

const PreluTable& prelu_table() {
  static constexpr PreluTable kTable = {{
      run<[](float x, float slope, float, PreluArgs) { return x < 0 ? x * slope : x; }>,
      run<[](float dy, float x, float slope, PreluArgs) { return x < 0 ? dy * slope : dy; }>,
      run<[](float dy, float x, float, PreluArgs) { return x < 0 ? dy * x : 0; }>,
      run<[](float x, float, float, PreluArgs k) { return shrunk(x, k); }>,
      run<[](float dy, float x, float, PreluArgs k) { return shrink_share(dy, x, k); }>,
  }};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS

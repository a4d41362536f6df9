#include "observe/fma_simd.h"

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

// Twelve chains hide the latency of an FMA on every core that we know (4 cycles, 2 units).
float run(std::int64_t rounds, double* count) {
  constexpr int kChains = 12;
  vf sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = vset(static_cast<float>(i));
  const vf a = vset(0.999F);
  const vf b = vset(1e-3F);
  for (std::int64_t r = 0; r < rounds; ++r) {
    for (int i = 0; i < kChains; ++i) sums[i] = vfma(sums[i], a, b);
  }
  vf all = sums[0];
  for (int i = 1; i < kChains; ++i) all = all + sums[i];
  *count = 2.0 * static_cast<double>(rounds) * kChains * (sizeof(vf) / sizeof(float));
  return all[0];
}

}  // namespace

const FmaTable& fma_table() {
  static constexpr FmaTable kTable = {run};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS

#include "ops/argmax/argmax_simd.h"

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

// Is x better than best? NaN is best of all.
template <bool kMax>
NEAP_VM bool beats(float x, float best) {
  return (kMax ? x > best : x < best) || (x != x && best == best);
}

// The best value first, in vectors; then where it stands.
template <bool kMax>
std::int64_t search_row(const float* x, std::int64_t n) {
  constexpr float kWorst = kMax ? -__builtin_inff() : __builtin_inff();
  vf best = vset(kWorst);
  vi nan = {};
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const vf v = vload_n(x + i, n - i < kLanes ? n - i : kLanes, kWorst);
    best = kMax ? vmax(best, v) : vmin(best, v);
    nan |= v != v;
  }
  float value = kMax ? vmax_lanes(best) : -vmax_lanes(-best);
  for (int lane = 0; lane < kLanes; ++lane) {
    if (nan[lane] != 0) value = __builtin_nanf("");
  }
  for (std::int64_t i = 0; i < n; ++i) {
    if (x[i] == value || (value != value && x[i] != x[i])) return i;
  }
  return 0;
}

template <bool kMax>
void search_columns(const float* x, std::int64_t* at, ArgLine line) {
  constexpr std::int64_t kColumns = 128;
  for (std::int64_t c = 0; c < line.inner; c += kColumns) {
    const std::int64_t n = line.inner - c < kColumns ? line.inner - c : kColumns;
    float best[kColumns];
    for (std::int64_t i = 0; i < n; ++i) {
      best[i] = x[c + i];
      at[c + i] = 0;
    }
    for (std::int64_t t = 1; t < line.length; ++t) {
      const float* row = x + t * line.inner + c;
      for (std::int64_t i = 0; i < n; ++i) {
        const bool better = beats<kMax>(row[i], best[i]);
        best[i] = better ? row[i] : best[i];
        at[c + i] = better ? t : at[c + i];
      }
    }
  }
}

template <bool kMax>
void search(const float* src, std::int64_t* dst, ArgLine line) {
#pragma omp parallel for schedule(static) if (line.outer * line.length * line.inner > 16384)
  for (std::int64_t o = 0; o < line.outer; ++o) {
    if (line.inner == 1) {
      dst[o] = search_row<kMax>(src + o * line.length, line.length);
    } else {
      search_columns<kMax>(src + o * line.length * line.inner, dst + o * line.inner, line);
    }
  }
}

}  // namespace

const ArgmaxTable& argmax_table() {
  static constexpr ArgmaxTable kTable = {search<true>, search<false>};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS

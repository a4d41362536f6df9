#include "precision/statistics_simd.h"

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

constexpr int kGroup = 256;
constexpr int kRun = 16;  // partial sums, whatever the length of a vector
constexpr int kParts = kRun / kLanes;
// Outside of these a group's squares could overflow or vanish in a float.
constexpr float kHuge = 0x1p56F;
constexpr float kTiny = 0x1p-48F;

NEAP_VM float min_of(const vf* v) {
  vf all = v[0];
  for (int p = 1; p < kParts; ++p) all = vmin(v[p], all);
#pragma GCC unroll 4
  for (int half = kLanes / 2; half > 0; half /= 2) all = vmin(all, __builtin_shuffle(all, vlane() ^ half));
  return all[0] + 0.0F;  // -0 becomes 0, whichever lane it came from
}
NEAP_VM float max_of(const vf* v) {
  vf all = v[0];
  for (int p = 1; p < kParts; ++p) all = vmax(v[p], all);
  return vmax_lanes(all) + 0.0F;
}
// Sixteen partial sums by halves: i with i + 8, then i + 4, and so on, in every instruction set.
NEAP_VM float sum_of(const vf* v) {
  vf part[kParts];
  for (int p = 0; p < kParts; ++p) part[p] = v[p];
#pragma GCC unroll 4
  for (int half = kParts / 2; half > 0; half /= 2) {
    for (int p = 0; p < half; ++p) part[p] = part[p] + part[p + half];
  }
  return vsum_lanes(part[0]);
}

struct Group {
  std::int64_t nan, infinite, outliers, finite;
  float min, max;
  double mean, square_deviation;
};

// In double, one element after the other: parts of groups, and groups with values that are huge or not finite.
[[gnu::noinline]] Group slow_group(const float* x, std::int64_t n, float low, float high) {
  Group g = {0, 0, 0, 0, 0, 0, 0, 0};
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, x + i, 4);
    bits &= 0x7FFFFFFFU;
    if (bits >= 0x7F800000U) {
      (bits > 0x7F800000U ? g.nan : g.infinite) += 1;
      continue;
    }
    g.min = g.finite == 0 || x[i] < g.min ? x[i] : g.min;
    g.max = g.finite == 0 || x[i] > g.max ? x[i] : g.max;
    g.outliers += x[i] < low || x[i] > high ? 1 : 0;
    g.finite += 1;
    sum += x[i];
  }
  g.min = g.min + 0.0F;
  g.max = g.max + 0.0F;
  g.mean = g.finite > 0 ? sum / static_cast<double>(g.finite) : 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = x[i] - g.mean;
    if (__builtin_isfinite(x[i])) g.square_deviation += d * d;
  }
  return g;
}

NEAP_VM std::int64_t count_outliers(const float* x, float low, float high) {
  vi count[kParts] = {};
  for (int i = 0; i < kGroup; i += kRun) {
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) {
      const vf v = vload(x + i + p * kLanes);
      count[p] -= (v < low) | (v > high);
    }
  }
  std::int64_t total = 0;
  for (int p = 0; p < kParts; ++p) {
    for (int l = 0; l < kLanes; ++l) total += count[p][l];
  }
  return total;
}

NEAP_VM Group fast_group(const float* x, float low, float high) {
  vf least[kParts], most[kParts], sum[kParts];
#pragma GCC unroll 4
  for (int p = 0; p < kParts; ++p) least[p] = most[p] = sum[p] = vload(x + p * kLanes);
#pragma GCC unroll 2
  for (int i = kRun; i < kGroup; i += kRun) {
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) {
      const vf v = vload(x + i + p * kLanes);
      least[p] = vmin(v, least[p]);
      most[p] = vmax(v, most[p]);
      sum[p] = sum[p] + v;
    }
  }
  const float min = min_of(least);
  const float max = max_of(most);
  const float total = sum_of(sum);
  // A value that is NaN or infinite makes the sum so.
  const bool is_small = min > -kTiny && max < kTiny && (min != 0 || max != 0);
  if (!(min >= -kHuge && max <= kHuge && total - total == 0) || is_small) return slow_group(x, kGroup, low, high);
  const float mean = total / kGroup;
  vf rest[kParts] = {};
  vf square[kParts] = {};
#pragma GCC unroll 2
  for (int i = 0; i < kGroup; i += kRun) {
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) {
      const vf d = vload(x + i + p * kLanes) - mean;
      rest[p] = rest[p] + d;
      square[p] = square[p] + d * d;
    }
  }
  // The sum of d is what rounding left of the mean.
  const double left = sum_of(rest);
  const double squares = sum_of(square) - left * left / kGroup;
  const bool has_outliers = min < low || max > high;
  return {0,
          0,
          has_outliers ? count_outliers(x, low, high) : 0,
          kGroup,
          min,
          max,
          mean + left / kGroup,
          squares > 0 ? squares : 0};
}

// Chan, Golub, LeVeque 1979.
NEAP_VM void add(Moments& all, const Group& g, std::int64_t elements) {
  all.nan += g.nan;
  all.infinite += g.infinite;
  all.outliers += g.outliers;
  const double before = static_cast<double>(all.elements - (all.nan - g.nan) - (all.infinite - g.infinite));
  all.elements += elements;
  if (g.finite == 0) return;
  const double count = static_cast<double>(g.finite);
  const double delta = g.mean - all.mean;
  const double share = count / (before + count);
  all.mean += delta * share;
  all.square_deviation += g.square_deviation + delta * delta * before * share;
  all.min = before == 0 || g.min < all.min ? g.min : all.min;
  all.max = before == 0 || g.max > all.max ? g.max : all.max;
  const float range = g.max - g.min;
  all.range_square += count * (static_cast<double>(range) * range);
  all.widest = range > all.widest ? range : all.widest;
  if (range > 0 && (all.narrowest == 0 || range < all.narrowest)) all.narrowest = range;
}

Moments moments(const float* src, std::int64_t n, float low, float high) {
  Moments all = {0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0};
  std::int64_t i = 0;
  for (; i + kGroup <= n; i += kGroup) add(all, fast_group(src + i, low, high), kGroup);
  if (i < n) add(all, slow_group(src + i, n - i, low, high), n - i);
  return all;
}

}  // namespace

const StatisticsTable& statistics_table() {
  static constexpr StatisticsTable kTable = {moments};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS

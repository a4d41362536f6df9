#include "precision/statistics.h"

#include <algorithm>
#include <cmath>

#include "precision/codec_format.h"
#include "precision/statistics_simd.h"

namespace neap::precision {
namespace {

constexpr std::int64_t kParts = 64;
constexpr std::int64_t kAlone = 64 * kGroup;  // below it waking the other threads costs more than they bring
constexpr int kBins = 256;

std::int64_t groups_of(std::int64_t elements) { return (elements + kGroup - 1) / kGroup; }

Moments merged(const Moments& a, const Moments& b) {
  const auto n = static_cast<double>(a.elements - a.nan - a.infinite);
  const auto m = static_cast<double>(b.elements - b.nan - b.infinite);
  Moments sum = m == 0 ? a : n == 0 ? b : a;
  sum.elements = a.elements + b.elements;
  sum.nan = a.nan + b.nan;
  sum.infinite = a.infinite + b.infinite;
  sum.outliers = a.outliers + b.outliers;
  if (n == 0 || m == 0) return sum;
  const double delta = b.mean - a.mean;
  sum.mean = a.mean + delta * (m / (n + m));
  sum.square_deviation = a.square_deviation + b.square_deviation + delta * delta * n * (m / (n + m));
  sum.min = std::min(a.min, b.min);
  sum.max = std::max(a.max, b.max);
  sum.range_square = a.range_square + b.range_square;
  sum.widest = std::max(a.widest, b.widest);
  sum.narrowest =
      a.narrowest == 0 || b.narrowest == 0 ? std::max(a.narrowest, b.narrowest) : std::min(a.narrowest, b.narrowest);
  return sum;
}

// f(src, n) on every group of the sample.
template <class F>
void for_sample(const float* src, std::int64_t elements, F f) {
  const std::int64_t groups = groups_of(elements);
  const std::int64_t count = std::min(groups, kSampleGroups);
  for (std::int64_t s = 0; s < count; ++s) {
    const std::int64_t first = s * groups / count * kGroup;
    f(src + first, std::min(kGroup, elements - first));
  }
}

double entropy_of(const std::array<std::int64_t, kBins>& bins) {
  std::int64_t total = 0;
  for (const std::int64_t n : bins) total += n;
  double bits = 0;
  for (const std::int64_t n : bins) {
    if (n > 0)
      bits -= static_cast<double>(n) / static_cast<double>(total) *
              std::log2(static_cast<double>(n) / static_cast<double>(total));
  }
  return bits + 0.0;
}

// Of one group of finite values: the sum of f (1 - f), in sixteen partial sums, which compilers turn into vectors.
double between_steps(const float* x, float lo, float factor) {
  constexpr int kSums = 16;
  float sums[kSums] = {};
  for (std::int64_t i = 0; i < kGroup; i += kSums) {
    for (int l = 0; l < kSums; ++l) {
      // Whole numbers of 2^-16 steps, as in the codec: what lies on the grid has f = 0.
      const float steps = (x[i + l] - lo) * factor + 0.5F;  // not negative: cutting off rounds
      const auto place = static_cast<std::int32_t>(steps);
      const float f = static_cast<float>(place & 0xFFFF) * 0x1p-16F;
      sums[l] += f * (1 - f);
    }
  }
  double sum = 0;
  for (const float s : sums) sum += s;
  return sum;
}

// Bins and places between steps, group by group.
class Sample {
 public:
  explicit Sample(const Moments& all)
      : min_(all.min), factor_(static_cast<float>(kBins / (static_cast<double>(all.max) - all.min))) {}

  void add(const float* x, std::int64_t n, const Moments& group) {
    for (std::int64_t i = 0; i < n; ++i) {
      const float place = (x[i] - min_) * factor_;  // NaN where the range is 0 or a value is not finite
      if (std::isfinite(x[i])) bins_[place > 0 ? static_cast<std::size_t>(std::min(place, kBins - 1.0F)) : 0] += 1;
    }
    const float range = group.max - group.min;
    if (n < kGroup || group.nan + group.infinite > 0 || !(range > 0) || range > kMaxRange) return;
    const double square = static_cast<double>(range) * range;
    weight_ += square * static_cast<double>(kGroup);
    for (const Level level : {Level::kInt8, Level::kInt4, Level::kBit}) {
      const float factor = kFine * static_cast<float>(steps(level)) / range;
      places_[index_of(level)] += std::isfinite(factor) ? square * between_steps(x, group.min, factor) : 0;
    }
  }

  void finish(Statistics& s) const {
    s.entropy = entropy_of(bins_);
    for (const Level level : {Level::kInt8, Level::kInt4, Level::kBit}) {
      s.between_steps[index_of(level)] = weight_ > 0 ? places_[index_of(level)] / weight_ : kSmooth;
    }
  }

 private:
  static constexpr double kSmooth = 1.0 / 6;  // where there is no whole group

  float min_;
  float factor_;
  std::array<std::int64_t, kBins> bins_{};
  std::array<double, kLevels> places_{};
  double weight_ = 0;
};

Moments moments_of(const float* src, std::int64_t elements, float low, float high) {
  const std::int64_t groups = groups_of(elements);
  const StatisticsTable& table = statistics_table();
  std::array<Moments, kParts> parts{};
#pragma omp parallel for schedule(static) if (elements > kAlone)
  for (std::int64_t p = 0; p < kParts; ++p) {
    const std::int64_t first = std::min(p * groups / kParts * kGroup, elements);
    const std::int64_t last = std::min((p + 1) * groups / kParts * kGroup, elements);
    parts[static_cast<std::size_t>(p)] = table.moments(src + first, last - first, low, high);
  }
  Moments all = parts[0];
  for (std::size_t p = 1; p < parts.size(); ++p) all = merged(all, parts[p]);
  return all;
}

}  // namespace

Statistics statistics_of(const float* src, std::int64_t elements, const StatisticsOptions& options) {
  std::array<Moments, kSampleGroups> groups{};
  Moments sampled{};
  std::size_t count = 0;
  for_sample(src, elements, [&](const float* x, std::int64_t n) {
    groups[count] = statistics_table().moments(x, n, -INFINITY, INFINITY);
    sampled = merged(sampled, groups[count++]);
  });
  const auto drawn = static_cast<double>(std::max<std::int64_t>(1, sampled.elements - sampled.nan - sampled.infinite));
  const double reach = options.outlier_deviations * std::sqrt(sampled.square_deviation / drawn);
  Sample sample(sampled);
  count = 0;
  for_sample(src, elements, [&](const float* x, std::int64_t n) { sample.add(x, n, groups[count++]); });

  const Moments m =
      moments_of(src, elements, static_cast<float>(sampled.mean - reach), static_cast<float>(sampled.mean + reach));
  Statistics s = {.elements = elements, .nan = m.nan, .infinite = m.infinite, .outliers = m.outliers};
  if (s.finite() > 0) {
    const auto finite = static_cast<double>(s.finite());
    s.min = m.min;
    s.max = m.max;
    s.mean = m.mean;
    s.deviation = std::sqrt(m.square_deviation / finite);
    s.mean_square = m.square_deviation / finite + m.mean * m.mean;
    s.range_square = m.range_square / finite;
    s.widest_range = m.widest;
    s.narrowest_range = m.narrowest;
    sample.finish(s);
  }
  return s;
}

}  // namespace neap::precision

#include "precision/variance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "precision/codec_format.h"

namespace neap::precision {
namespace {

// Mean of (power of two below |x|)^2 over the mean of x^2: 0.54 for normal distributions, 0.25 to 1 for any.
constexpr double kMantissa = 0.54;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Values from `over` on become infinite; a tensor below `under` has hardly a bit left.
double half_variance(const Statistics& s, double over, double under, double step, double smallest) {
  const double greatest = std::max(std::fabs(static_cast<double>(s.min)), std::fabs(static_cast<double>(s.max)));
  if (greatest >= over || (greatest > 0 && greatest < under)) return kInfinity;
  return (s.mean_square * kMantissa * step * step + (s.mean_square > 0 ? smallest * smallest : 0)) / 12;
}

double grouped_variance(Level level, const Statistics& s) {
  const bool reported = s.widest_range > kMaxRange ||
                        (s.narrowest_range > 0 && s.narrowest_range / static_cast<float>(steps(level)) < kMinScale);
  if (reported) return kInfinity;
  const double n = steps(level);
  return s.range_square / (n * n) * s.between_steps[index_of(level)];
}

}  // namespace

double added_variance(Level level, const Statistics& s) {
  if (level == Level::kFp32) return 0;
  if (s.nan + s.infinite > 0) return kInfinity;
  switch (level) {
    case Level::kFp16: return half_variance(s, 65520, 0x1p-24, 0x1p-10, 0x1p-24);
    case Level::kBf16: return half_variance(s, 0x1.ffp127, 0x1p-126, 0x1p-7, 0x1p-133);
    default: return grouped_variance(level, s);
  }
}

double relative_variance(Level level, const Statistics& s) {
  const double added = added_variance(level, s);
  return added == 0 ? 0 : added / s.mean_square;
}

double assumed_variance(Level level) {
  constexpr double kRangeSquare = 31.6;  // expected, of 256 normal values
  if (!is_grouped(level)) return added_variance(level, {.elements = 1, .min = -1, .max = 1, .mean_square = 1});
  const double n = steps(level);
  return kRangeSquare / (n * n) / 6;
}

double history_variance(Level level, const std::byte* history, std::int64_t elements) {
  double sum = 0;
  for (std::int64_t first = 0; first < elements; first += kGroup) {
    float p[2];
    std::memcpy(p, history + first / kGroup * 8, 8);
    const double step = level == Level::kBit ? static_cast<double>(p[1]) - p[0] : p[1];
    sum += step * step * static_cast<double>(std::min(kGroup, elements - first));
  }
  return elements > 0 ? sum / static_cast<double>(elements) / 6 : 0;
}

}  // namespace neap::precision

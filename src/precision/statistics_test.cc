#include "precision/statistics.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "precision/codec_testing.h"
#include "precision/statistics_simd.h"

namespace neap::precision {
namespace {

Statistics of(const Floats& x, const StatisticsOptions& options = {}) {
  return statistics_of(x.data(), static_cast<std::int64_t>(x.size()), options);
}

// Slow and obvious.
Statistics plain(const Floats& x) {
  Statistics s{.elements = static_cast<std::int64_t>(x.size())};
  long double sum = 0;
  long double squares = 0;
  s.min = std::numeric_limits<float>::max();
  s.max = -s.min;
  for (const float v : x) {
    s.nan += std::isnan(v) ? 1 : 0;
    s.infinite += std::isinf(v) ? 1 : 0;
    if (!std::isfinite(v)) continue;
    s.min = std::min(s.min, v);
    s.max = std::max(s.max, v);
    sum += v;
    squares += static_cast<long double>(v) * v;
  }
  const auto n = static_cast<long double>(s.finite());
  s.mean = static_cast<double>(sum / n);
  s.mean_square = static_cast<double>(squares / n);
  s.deviation = static_cast<double>(std::sqrt(std::max<long double>(0, squares / n - (sum / n) * (sum / n))));
  return s;
}

TEST(Statistics, AgreesWithPlainLoops) {
  for (const std::int64_t n : {1, 5, 255, 256, 257, 1000, 16384, 50001}) {
    for (const auto& [name, x] : hostile_tensors(n, 5)) {
      SCOPED_TRACE(name + " " + std::to_string(n));
      const Statistics got = of(x);
      const Statistics want = plain(x);
      EXPECT_EQ(got.nan, want.nan);
      EXPECT_EQ(got.infinite, want.infinite);
      if (want.finite() == 0) continue;
      EXPECT_EQ(got.min, want.min);
      EXPECT_EQ(got.max, want.max);
      const double root = std::sqrt(want.mean_square);
      EXPECT_NEAR(got.mean, want.mean, 1e-6 * root);
      EXPECT_NEAR(got.mean_square, want.mean_square, 1e-5 * want.mean_square);
      EXPECT_NEAR(got.deviation, want.deviation, 1e-5 * want.deviation + 1e-7 * root);
    }
  }
}

TEST(Statistics, SmallDeviationFarFromZero) {
  const Floats x = normal_tensor(100000, 3, 1000, 0.25);
  EXPECT_NEAR(of(x).deviation, 0.25, 0.002);
}

TEST(Statistics, TheSameBitsForAnyThreadsAndBuild) {
  const int before = omp_get_max_threads();
  for (const std::int64_t n : {7, 300, 40000, 300001}) {
    for (const auto& tensor : hostile_tensors(n, 5)) {
      const auto& name = tensor.first;
      const auto& x = tensor.second;
      omp_set_num_threads(1);
      const Statistics want = of(x);
      for (const int threads : {2, 3, 8}) {
        omp_set_num_threads(threads);
        ASSERT_EQ(of(x), want) << name;
      }
      const auto same = [&](const StatisticsTable& table) {
        const Moments a = isa_base::statistics_table().moments(x.data(), n, -1, 1);
        const Moments b = table.moments(x.data(), n, -1, 1);
        return a.nan == b.nan && a.infinite == b.infinite && a.outliers == b.outliers && a.min == b.min &&
               a.max == b.max && a.mean == b.mean && a.square_deviation == b.square_deviation &&
               a.range_square == b.range_square && a.widest == b.widest && a.narrowest == b.narrowest;
      };
      ASSERT_TRUE(isa() < Isa::kV3 || same(isa_v3::statistics_table())) << name;
      ASSERT_TRUE(isa() < Isa::kV4 || same(isa_v4::statistics_table())) << name;
    }
  }
  omp_set_num_threads(before);
}

TEST(Statistics, CountsOutliers) {
  Floats x = normal_tensor(64 * 256, 8);
  for (float& v : x) v = std::max(-2.0F, std::min(2.0F, v));
  EXPECT_EQ(of(x).outliers, 0);
  for (std::size_t i = 100; i < x.size(); i += 2048) x[i] = i % 4096 < 2048 ? 50.0F : -50.0F;
  EXPECT_EQ(of(x).outliers, 8);
  EXPECT_GT(of(x, {.outlier_deviations = 0.5}).outliers, 5000);
}

TEST(Statistics, EntropyOfKnownDistributions) {
  EXPECT_EQ(of(Floats(5000, 2.5F)).entropy, 0);
  Floats coin(8192);
  for (std::size_t i = 0; i < coin.size(); ++i) coin[i] = i % 2 == 0 ? -1.0F : 4.0F;
  EXPECT_NEAR(of(coin).entropy, 1, 1e-9);
  Floats flat(8192);
  for (std::size_t i = 0; i < flat.size(); ++i) flat[i] = static_cast<float>(i * 37 % 8192);
  EXPECT_NEAR(of(flat).entropy, 8, 0.05);
  // A normal distribution's, less the logarithm of a bin's width.
  const Statistics s = of(normal_tensor(8192, 1));
  EXPECT_NEAR(s.entropy, 0.5 * std::log2(2 * M_PI * M_E) - std::log2((s.max - s.min) / 256.0), 0.1);
}

TEST(Statistics, PlacesBetweenSteps) {
  const Statistics smooth = of(normal_tensor(8192, 1));
  EXPECT_NEAR(smooth.between_steps[index_of(Level::kInt8)], 1.0 / 6, 0.005);
  EXPECT_NEAR(smooth.between_steps[index_of(Level::kInt4)], 1.0 / 6, 0.005);
  EXPECT_EQ(smooth.between_steps[index_of(Level::kFp32)], 0);
  Floats two(4096);
  for (std::size_t i = 0; i < two.size(); ++i) two[i] = i % 3 == 0 ? 1.0F : 0.0F;
  EXPECT_EQ(of(two).between_steps[index_of(Level::kBit)], 0);
  EXPECT_EQ(of(two).narrowest_range, 1);
}

TEST(Statistics, NothingAndNothingFinite) {
  EXPECT_EQ(statistics_of(nullptr, 0), Statistics{});
  const Statistics s = of(Floats(1000, std::nanf("")));
  EXPECT_EQ(s.nan, 1000);
  EXPECT_EQ(s.mean, 0);
  EXPECT_EQ(s.max, 0);
}

}  // namespace
}  // namespace neap::precision

// How far decoded values are from the true ones: bounds, exact cases, bias, variance.
#include <gtest/gtest.h>

#include <cmath>

#include "precision/codec_testing.h"
#include "precision/statistics.h"
#include "precision/variance.h"

namespace neap::precision {
namespace {

constexpr Level kGrouped[] = {Level::kInt8, Level::kInt4, Level::kBit};

Floats group_ranges(const Floats& x) {
  Floats ranges;
  for (std::size_t i = 0; i < x.size(); i += 256) {
    const auto [lo, hi] = std::minmax_element(x.begin() + static_cast<std::ptrdiff_t>(i),
                                              x.begin() + static_cast<std::ptrdiff_t>(std::min(i + 256, x.size())));
    ranges.push_back(*hi - *lo);
  }
  return ranges;
}

// Less than one step, half of one when rounding to nearest; a few roundings of floats come on top.
TEST(CodecError, IntegersStayWithinAStep) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U}) {
    const double size = std::pow(10.0, static_cast<double>(seed) * 4 - 14);
    const Floats x = normal_tensor(3001, seed, seed % 2 == 0 ? 0 : 5 * size, size);
    const Floats ranges = group_ranges(x);
    for (const Level level : kGrouped) {
      for (const Rounding rounding : {Rounding::kStochastic, Rounding::kNearest}) {
        const Floats y = round_trip(level, x, {.seed = seed, .rounding = rounding});
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double step = static_cast<double>(ranges[i / 256]) / steps(level);
          const double bound = step * (rounding == Rounding::kNearest ? 0.5001 : 1) + 4e-7 * std::fabs(x[i]);
          ASSERT_LE(std::fabs(static_cast<double>(y[i]) - x[i]), bound) << name(level);
        }
      }
    }
  }
}

TEST(CodecError, HalvesStayWithinHalfAUnit) {
  for (const auto& [name, x] : hostile_tensors(1000, 8)) {
    const Floats b = round_trip(Level::kBf16, x, {});
    const Floats h = round_trip(Level::kFp16, x, {});
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double size = std::fabs(static_cast<double>(x[i]));
      if (size < 0x1.ffp127) {
        ASSERT_LE(std::fabs(static_cast<double>(b[i]) - x[i]), std::max(size * 0x1p-8, 0x1p-134));
      }
      if (size < 65520) {
        ASSERT_LE(std::fabs(static_cast<double>(h[i]) - x[i]), std::max(size * 0x1p-11, 0x1p-25));
      }
    }
  }
}

TEST(CodecError, ExactOnTheGrid) {
  RandomStream random(3);
  for (const Level level : kGrouped) {
    for (const float unit : {1.0F, 0x1p-20F, 0x1p30F}) {
      Floats x(2000);
      for (float& v : x) v = static_cast<float>(random.below(static_cast<std::uint64_t>(steps(level)) + 1)) * unit;
      for (std::size_t i = 0; i < x.size(); i += 100) {  // the whole range in every group
        x[i] = 0;
        x[i + 1] = static_cast<float>(steps(level)) * unit;
      }
      for (std::uint64_t step = 0; step < 20; ++step) ASSERT_EQ(round_trip(level, x, {.step = step}), x) << name(level);
    }
  }
}

TEST(CodecError, ConstantGroupsAndZerosAreExact) {
  for (const Level level : kGrouped) {
    for (const float v : {0.0F, 0.1F, -7.3F, 1e-40F, 3e38F}) {
      const Floats x(777, v);
      EXPECT_EQ(round_trip(level, x, {}), x);
      EXPECT_EQ(encoded(level, x, {}).flags, 0U);
    }
  }
  Floats relu = normal_tensor(4096, 6);
  for (float& v : relu) v = std::max(v, 0.0F);
  for (const Level level : kGrouped) {
    const Floats y = round_trip(level, relu, {});
    for (std::size_t i = 0; i < relu.size(); ++i) {
      if (relu[i] == 0) {
        ASSERT_EQ(y[i], 0);
      }
    }
  }
}

TEST(CodecError, OneBitIsEnoughForTwoValues) {
  Floats x = normal_tensor(5000, 7);
  for (float& v : x) v = v > 0.3F ? 0.3F : -0.1F;
  const Encoded e = encoded(Level::kBit, x, {});
  EXPECT_EQ(e.flags, 0U);
  EXPECT_EQ(decoded(Level::kBit, e, 5000), x);
  x[4999] = 0.29999F;
  EXPECT_EQ(encoded(Level::kBit, x, {}).flags, kInexact);
}

struct Bias {
  double mean = 0;
  double deviation = 0;  // of the mean
};

// The mean error in steps over many draws of one group.
Bias bias_of(Level level, Rounding rounding, float place, int draws) {
  Floats x(256, place / static_cast<float>(steps(level)));
  x[0] = 0;
  x[1] = 1;
  double sum = 0;
  double squares = 0;
  std::int64_t count = 0;
  for (int d = 0; d < draws; ++d) {
    const Floats y = round_trip(level, x, {.seed = 5, .step = static_cast<std::uint64_t>(d), .rounding = rounding});
    for (std::size_t i = 2; i < x.size(); ++i) {
      const double error = (static_cast<double>(y[i]) - x[i]) * steps(level);
      sum += error;
      squares += error * error;
      ++count;
    }
  }
  const double n = static_cast<double>(count);
  return {sum / n, std::sqrt(squares / n / n)};
}

// A million draws for each place between two steps.
TEST(CodecError, StochasticRoundingIsUnbiased) {
  for (const Level level : kGrouped) {
    for (const float f : {0.003F, 0.1F, 0.25F, 0.5F, 0.7371F, 0.998F}) {
      const auto half = steps(level) / 2;
      const float place = static_cast<float>(half) + f;
      const Bias stochastic = bias_of(level, Rounding::kStochastic, place, 4000);
      EXPECT_LT(std::fabs(stochastic.mean), 4 * stochastic.deviation + 2e-5) << name(level) << " " << f;
      EXPECT_LT(stochastic.deviation, 6e-4);
      const Bias nearest = bias_of(level, Rounding::kNearest, place, 1);
      EXPECT_NEAR(std::fabs(nearest.mean), std::min(f, 1 - f), 1e-3);
    }
  }
}

// The gradient of a linear layer, a sum of x_i dy_i: its mean over draws is the true one, that of rounding to nearest
// is not.
TEST(CodecError, LinearGradientsAreUnbiased) {
  const std::int64_t n = 4096;
  Floats x = normal_tensor(n, 1);
  for (float& v : x) v = std::exp(v);  // skewed, so that nearest rounding errs to one side
  const auto gradient = [&](const Floats& y) {
    double sum = 0;
    for (const float v : y) sum += v;  // dy = 1
    return sum;
  };
  const double truth = gradient(x);
  double mean = 0;
  double square = 0;
  constexpr int kDraws = 400;
  for (std::uint64_t d = 0; d < kDraws; ++d) {
    const double error = gradient(round_trip(Level::kInt4, x, {.step = d})) - truth;
    mean += error / kDraws;
    square += error * error / kDraws;
  }
  EXPECT_LT(std::fabs(mean), 4 * std::sqrt(square / kDraws));
  const double nearest = gradient(round_trip(Level::kInt4, x, {.rounding = Rounding::kNearest})) - truth;
  EXPECT_GT(std::fabs(nearest), 10 * std::sqrt(square / kDraws));
  EXPECT_GT(std::fabs(nearest), 4 * std::fabs(mean));
}

struct SquareError {
  double mean = 0;
  double deviation = 0;  // of the mean
};

SquareError square_error(Level level, const Floats& x, int draws) {
  double sum = 0;
  double squares = 0;
  for (int d = 0; d < draws; ++d) {
    const Floats y = round_trip(level, x, {.step = static_cast<std::uint64_t>(d)});
    double error = 0;
    for (std::size_t i = 0; i < x.size(); ++i) error += std::pow(static_cast<double>(y[i]) - x[i], 2);
    error /= static_cast<double>(x.size());
    sum += error;
    squares += error * error;
  }
  const double mean = sum / draws;
  return {mean, std::sqrt(std::max(0.0, squares / draws - mean * mean) / draws)};
}

// Halves round to nearest: where values lie close together or are few, only the bound holds (half a unit of an
// octave's lowest value), not the mean over mantissas.
TEST(Variance, AgreesWithMonteCarlo) {
  for (const auto& [name, x] : hostile_tensors(16384, 12)) {
    const Statistics s = statistics_of(x.data(), 16384);
    for (const Level level : kAllLevels) {
      SCOPED_TRACE(name + " " + std::string(precision::name(level)));
      const double want = added_variance(level, s);
      ASSERT_EQ(std::isinf(want), must_stay_exact(encoded(level, x, {}).flags));
      if (std::isinf(want) || level == Level::kFp32) continue;
      const SquareError got = square_error(level, x, is_grouped(level) ? 30 : 1);
      const double floats = s.mean_square * 1e-14;
      if (is_grouped(level) || name == "smooth" || name == "relu") {
        EXPECT_NEAR(got.mean, want, 0.08 * want + 4 * got.deviation + floats);
      } else {
        EXPECT_LE(got.mean, 7 * want);
      }
    }
  }
}

// For smooth values the history alone foretells the error: s^2 / 6.
TEST(Variance, OfTheHistory) {
  const Floats x = normal_tensor(20000, 4);
  for (const Level level : {Level::kInt8, Level::kInt4}) {
    const Encoded e = encoded(level, x, {});
    const double want = square_error(level, x, 20).mean;
    EXPECT_NEAR(history_variance(level, e.history.data(), 20000), want, 0.03 * want);
  }
  EXPECT_EQ(history_variance(Level::kInt8, nullptr, 0), 0);
}

// The byte that a group shares must not make its elements move together: the variance of their sum is that of the
// parts.
TEST(Variance, ElementsOfAGroupAreIndependent) {
  Floats x = normal_tensor(256, 4);
  constexpr int kDraws = 4000;
  double of_sum = 0;
  double sum_of = 0;
  for (std::uint64_t d = 0; d < kDraws; ++d) {
    const Floats y = round_trip(Level::kInt8, x, {.step = d});
    double error = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double e = static_cast<double>(y[i]) - x[i];
      error += e;
      sum_of += e * e;
    }
    of_sum += error * error;
  }
  EXPECT_NEAR(of_sum / sum_of, 1, 0.1);
}

}  // namespace
}  // namespace neap::precision

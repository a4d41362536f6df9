#include "runtime/rehearsal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.h"

namespace neap {
namespace {

std::vector<float> noise(std::size_t count, std::uint64_t key) {
  std::vector<float> out(count);
  RandomStream random(key);
  for (float& x : out) x = static_cast<float>(2 * random.uniform() - 1);
  return out;
}

Rehearsed of(const std::vector<float>& values) {
  Rehearsed out;
  out.add(reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float), DType::kF32, true);
  return out;
}

TEST(Rehearsal, SumsTellHowFarTwoTensorsAreApart) {
  for (const std::size_t count : {10U, 1000U, 10'000U}) {
    for (const double error : {1e-6, 1e-3, 0.3}) {
      const std::vector<float> a = noise(count, 1);
      const std::vector<float> away = noise(count, 2);
      std::vector<float> b = a;
      double square = 0;
      double norm = 0;
      for (std::size_t i = 0; i < count; ++i) {
        b[i] = static_cast<float>(a[i] + error * away[i]);
        square += std::pow(static_cast<double>(b[i]) - a[i], 2);
        norm += std::pow(a[i], 2);
      }
      const double truth = std::sqrt(square / norm);
      EXPECT_GT(relative_error(of(a), of(b)), truth / 2) << count << " " << error;
      EXPECT_LT(relative_error(of(a), of(b)), truth * 2) << count << " " << error;
    }
  }
}

TEST(Rehearsal, TheSameBitsAreNotApartAndOnesWithoutAValueAre) {
  const std::vector<float> a = noise(100, 3);
  EXPECT_EQ(relative_error(of(a), of(a)), 0);
  std::vector<float> b = a;
  b[7] = std::nanf("");
  EXPECT_FALSE(relative_error(of(a), of(b)) <= 1);
}

}  // namespace
}  // namespace neap

#include "device/factored_kernel.h"

#include <gtest/gtest.h>

namespace neap {
namespace {

std::size_t chosen_of(std::array<double, 3> ms) {
  FactorSearch search(3);
  while (!search.is_over()) search.add(ms[search.next()]);
  return search.next();
}

TEST(FactorSearch, TakesTheFastestIfTheClockSeesADifference) {
  EXPECT_EQ(chosen_of({1, 0.9, 0.8}), 2U);
  EXPECT_EQ(chosen_of({1, 0.8, 0.9}), 1U);
  EXPECT_EQ(chosen_of({1, 0.99, 0.98}), 0U);
}

TEST(FactorSearch, TriesAllInTurnAndIsNotFooledByColdOrSlowLaunches) {
  FactorSearch search(2);
  for (std::size_t i = 0; !search.is_over(); ++i) {
    EXPECT_EQ(search.next(), i % 2);
    const bool is_odd = i == 1 || i == 5;  // the first of the second factor, and one more
    search.add(is_odd ? 100 : i % 2 == 0 ? 1 : 0.5);
  }
  EXPECT_EQ(search.chosen(), 1U);
  EXPECT_EQ(search.median_ms(0), 1);
  EXPECT_EQ(search.median_ms(1), 0.5);
}

TEST(FactorSearch, CanBeTold) {
  FactorSearch search(4);
  search.fix(3);
  EXPECT_TRUE(search.is_over());
  EXPECT_EQ(search.next(), 3U);
  EXPECT_EQ(search.median_ms(3), 0);
}

}  // namespace
}  // namespace neap

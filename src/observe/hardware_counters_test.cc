#include "observe/hardware_counters.h"

#include <gtest/gtest.h>

namespace neap {
namespace {

TEST(HardwareCounters, CountWorkOrSayWhyNot) {
  std::string why;
  const auto counters = HardwareCounters::open(why);
  if (!counters) {
    EXPECT_FALSE(why.empty());
    return;
  }
  const CounterReading before = counters->read();
  volatile double sum = 0;
  for (int i = 0; i < 1'000'000; ++i) sum = sum + i;
  const CounterReading took = counters->read() - before;
  EXPECT_GT(took.instructions, 2'000'000U);
  EXPECT_LT(took.instructions, 200'000'000U);
}

TEST(HardwareCounters, ModelsMissesByTheLargestCache) {
  const Caches caches = {.l1_bytes = 1 << 15, .l2_bytes = 1 << 20, .l3_bytes = 1 << 25};
  EXPECT_EQ(modelled_miss_rate(0, caches), 0);
  EXPECT_EQ(modelled_miss_rate(1 << 24, caches), 0);
  EXPECT_DOUBLE_EQ(modelled_miss_rate(1 << 26, caches), 0.5);
  EXPECT_GT(modelled_miss_rate(1e12, caches), 0.99);
}

}  // namespace
}  // namespace neap

#include "train/spilling.h"

#include <gtest/gtest.h>

namespace neap {
namespace {

constexpr Link kLink = {.write_bytes_per_ms = 1e6, .read_bytes_per_ms = 2e6};

// A step of 100 ms that moves 10 MB each way at the given rates.
SpillCounters step_at(double write, double read, double stalled_ms) {
  return {.written_bytes = 10'000'000,
          .read_bytes = 10'000'000,
          .write_ms = 1e7 / write,
          .read_ms = 1e7 / read,
          .stalled_ms = stalled_ms};
}

int steps_until_due(SpillWatch& watch, const SpillCounters& step, Link& link, int most = 100) {
  for (int i = 1; i <= most; ++i) {
    if (watch.is_plan_due(step, 100, link)) return i;
  }
  return -1;
}

TEST(SpillWatch, LeavesAloneWhatDoesNotStall) {
  SpillWatch watch;
  Link link = kLink;
  EXPECT_EQ(steps_until_due(watch, step_at(1e6, 2e6, 1), link), -1);
  EXPECT_EQ(steps_until_due(watch, step_at(1e5, 2e5, 0), link), -1) << "slow, but nobody waits";
  EXPECT_EQ(link, kLink);
}

TEST(SpillWatch, GivesTransfersMoreTimeWhenTheyComeTooLate) {
  SpillWatch watch;
  Link link = kLink;
  const SpillCounters late = step_at(1e6, 2e6, 20);
  EXPECT_EQ(steps_until_due(watch, late, link), 3);
  EXPECT_EQ(link.lead, 2);
  EXPECT_EQ(steps_until_due(watch, late, link), 6) << "less and less often";
  EXPECT_EQ(steps_until_due(watch, late, link), 12);
  EXPECT_EQ(link.lead, 8);
  EXPECT_EQ(steps_until_due(watch, late, link), -1) << "it does not help";
}

TEST(SpillWatch, TakesOverTheRatesOfADiskThatHasChanged) {
  SpillWatch watch;
  Link link = kLink;
  EXPECT_EQ(steps_until_due(watch, step_at(1e5, 2e5, 80), link), 3);
  EXPECT_NEAR(link.write_bytes_per_ms, 1e5, 1);
  EXPECT_NEAR(link.read_bytes_per_ms, 2e5, 1);
  EXPECT_EQ(link.lead, 1);
}

}  // namespace
}  // namespace neap

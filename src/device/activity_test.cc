#include "device/activity.h"

#include <gtest/gtest.h>

namespace neap {
namespace {

constexpr std::int64_t kMs = 1'000'000;

Activity at(ActivityKind kind, std::int64_t begun_ms, std::int64_t ended_ms, std::uint32_t tag = Activity::kNoTag) {
  return {.kind = kind, .tag = tag, .begun_ns = begun_ms * kMs, .ended_ns = ended_ms * kMs, .bytes = 10};
}

TEST(Activity, BusyCountsTimeOnceHoweverMuchRanInIt) {
  const std::vector<Activity> noted = {at(ActivityKind::kKernel, 0, 10),  at(ActivityKind::kKernel, 5, 12),
                                       at(ActivityKind::kCopyOut, 8, 20), at(ActivityKind::kCopyIn, 15, 22),
                                       at(ActivityKind::kFill, 21, 30),   at(ActivityKind::kCopyInside, 40, 41)};
  const Busy busy = busy_of(noted);
  EXPECT_DOUBLE_EQ(busy.compute_ms, 22);  // 0..12, 21..30, 40..41
  EXPECT_DOUBLE_EQ(busy.link_ms, 14);     // 8..22
  EXPECT_DOUBLE_EQ(busy.overlap_ms, 5);   // 8..12, 21..22
  EXPECT_EQ(busy.link_bytes, 20);
}

TEST(Activity, BusyOfNothingIsNothing) {
  EXPECT_EQ(busy_of({}).link_ms, 0);
  EXPECT_EQ(busy_of({}).overlap_ms, 0);
}

TEST(Activity, WhatTouchesDoesNotOverlap) {
  const std::vector<Activity> noted = {at(ActivityKind::kKernel, 1, 2), at(ActivityKind::kCopyIn, 2, 3)};
  EXPECT_EQ(busy_of(noted).overlap_ms, 0);
}

TEST(Activity, TagsGatherTheirActivities) {
  const std::vector<Activity> noted = {at(ActivityKind::kKernel, 4, 6, 1), at(ActivityKind::kKernel, 1, 2, 1),
                                       at(ActivityKind::kKernel, 9, 10, 7), at(ActivityKind::kKernel, 9, 10)};
  const std::vector<TagTime> times = times_by_tag(noted, 3);
  ASSERT_EQ(times.size(), 3U);
  EXPECT_EQ(times[0].ended_ns, 0);
  EXPECT_EQ(times[1].begun_ns, 1 * kMs);
  EXPECT_EQ(times[1].ended_ns, 6 * kMs);
  EXPECT_DOUBLE_EQ(times[1].busy_ms, 3);
}

TEST(Activity, KernelsHaveNamesThatPeopleRead) {
  EXPECT_EQ(readable_kernel("_ZN4neap3addEPKfS1_Pfl"), "neap::add");
  EXPECT_EQ(readable_kernel("sm90_gemm_bf16"), "sm90_gemm_bf16");
  EXPECT_EQ(readable_kernel(""), "");
}

// Counts how often it is on.
class CountingLog final : public ActivityLog {
 public:
  void start() override { ++on; }
  void tag(std::uint32_t /*tag*/) override {}
  std::vector<Activity> stop() override {
    --on;
    return {Activity{}};
  }
  int on = 0;
};

TEST(Activity, ALogIsOffAgainWhateverHappens) {
  CountingLog log;
  {
    NotedActivities noted(log);
    EXPECT_EQ(log.on, 1);
    EXPECT_EQ(noted.take().size(), 1U);
    EXPECT_EQ(log.on, 0);
  }
  EXPECT_EQ(log.on, 0);
  try {
    const NotedActivities noted(log);
    throw 1;
  } catch (int) {
    EXPECT_EQ(log.on, 0);
  }
}

}  // namespace
}  // namespace neap

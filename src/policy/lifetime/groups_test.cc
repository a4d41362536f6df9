#include "policy/lifetime/groups.h"

#include <gtest/gtest.h>

namespace neap {
namespace {

const std::vector<AllocationEvent> kStep = {{.layer = 1, .bytes = 10, .tick = 0, .ticks = 9},
                                            {.layer = 1, .bytes = 20, .tick = 1, .ticks = 9},
                                            {.layer = 2, .bytes = 30, .tick = 2, .ticks = 9},
                                            {.layer = 1, .bytes = 40, .tick = 3, .ticks = 9},
                                            {.layer = 1, .phase = 1, .bytes = 50, .tick = 4, .ticks = 9}};

TEST(LayerGroups, AreRowsOfOneLayerAndPhase) {
  const LayerGroups groups = group_by_layer(kStep);
  EXPECT_EQ(groups.group_of, (std::vector<std::size_t>{0, 0, 1, 2, 3}));
  EXPECT_EQ(groups.events[0].bytes, 30);
  EXPECT_EQ(groups.events[0].site, groups.events[2].site);
  EXPECT_NE(groups.events[2].site, groups.events[3].site);
}

TEST(LayerGroups, LiveUntilTheLastOfThemIsOver) {
  const LayerGroups groups = group_by_layer(kStep);
  const std::vector<Tick> lifespans = {2, 7, 1, 1, 1};
  const std::vector<Tick> of = group_lifespans(groups, kStep, lifespans);
  EXPECT_EQ(of, (std::vector<Tick>{8, 1, 1, 1}));
  std::vector<Lifetime> grouped;
  for (const Tick t : of) grouped.push_back({double{0} + t, double{0} + t, double{0} + t});
  std::vector<Lifetime> out(kStep.size());
  spread_to_events(groups, kStep, grouped, out);
  EXPECT_DOUBLE_EQ(out[0].p50, 8);
  EXPECT_DOUBLE_EQ(out[1].p50, 7);
  EXPECT_DOUBLE_EQ(out[4].p90, 1);
}

}  // namespace
}  // namespace neap

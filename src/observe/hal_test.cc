#include "observe/hal.h"

#include <gtest/gtest.h>

#include "graph/op.h"

namespace neap {
namespace {

constexpr Caches kCaches = {.l1_bytes = 4 << 10, .l2_bytes = 32 << 10, .l3_bytes = 256 << 10};

// y = tanh(tanh(x)) over `numbers` floats, then a sum of everything that came before.
Graph chain(std::int64_t numbers) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {numbers});
  const Value once = g("tanh", {x});
  const Value twice = g("tanh", {once});
  g.output("sum", g("add", {twice, x}));
  return g.take();
}

TEST(Hal, FindsWhatWasJustMadeInTheSmallestCacheThatHoldsIt) {
  const auto small = modelled_traffic(chain(256), kCaches);  // 1 KiB each
  EXPECT_EQ(small[1].from_l1, 1024);
  EXPECT_EQ(small[1].read(), 1024);
  const auto middle = modelled_traffic(chain(4 << 10), kCaches);  // 16 KiB
  EXPECT_EQ(middle[1].from_l2, 16 << 10);
  const auto large = modelled_traffic(chain(32 << 10), kCaches);  // 128 KiB
  EXPECT_EQ(large[1].from_l3, 128 << 10);
  const auto huge = modelled_traffic(chain(128 << 10), kCaches);  // 512 KiB
  EXPECT_EQ(huge[1].from_memory, 512 << 10);
  EXPECT_EQ(huge[0].to_memory, 512 << 10) << "what the next call must fetch from memory has gone there";
  EXPECT_EQ(large[0].to_memory, 0);
}

// The last node reads x behind two results: of 128 KiB each, they fill the largest cache.
TEST(Hal, WhatLiesBetweenDrivesATensorOut) {
  const auto traffic = modelled_traffic(chain(32 << 10), kCaches);
  EXPECT_EQ(traffic[2].from_l3, 128 << 10) << "the result of the node before";
  EXPECT_EQ(traffic[2].from_memory, 128 << 10) << "x";
}

TEST(Hal, AViewMovesNothing) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {16, 16});
  g.output("y", g("tanh", {g("reshape", {g("tanh", {x})}, {{"shape", Shape{256}}})}));
  const Graph graph = g.take();
  const auto traffic = modelled_traffic(graph, kCaches);
  double read = 0;
  for (const MemoryTraffic& each : traffic) read += each.read();
  EXPECT_EQ(read, 2048) << "two calls of 1 KiB";
  EXPECT_EQ(traffic.back().from_l1, 1024) << "the view is found where its tensor lies";
}

TEST(Hal, SaysWhereAReadingComesFrom) {
  const MemoryTraffic modelled = {.from_l1 = 60, .from_l2 = 20, .from_l3 = 15, .from_memory = 5, .to_memory = 10};
  const MemoryActivity a = activity_of(modelled, {});
  EXPECT_DOUBLE_EQ(a.l1_hit_rate.value, 0.6);
  EXPECT_DOUBLE_EQ(a.l2_hit_rate.value, 0.5);
  EXPECT_DOUBLE_EQ(a.l3_hit_rate.value, 0.75);
  EXPECT_DOUBLE_EQ(a.memory_bytes.value, 15);
  EXPECT_EQ(name(a.memory_bytes.source), "modelled");
  const MemoryActivity b = activity_of(
      modelled, CounterReading{.cache_references = 100, .cache_misses = 10, .l1_reads = 50, .l1_misses = 5});
  EXPECT_DOUBLE_EQ(b.l1_hit_rate.value, 0.9);
  EXPECT_DOUBLE_EQ(b.l3_hit_rate.value, 0.9);
  EXPECT_DOUBLE_EQ(b.memory_bytes.value, 640);
  EXPECT_EQ(name(b.l1_hit_rate.source), "hw");
  EXPECT_EQ(name(b.l2_hit_rate.source), "modelled");
  EXPECT_EQ(name(activity_of({}, {}).l1_hit_rate.source), "absent");
}

TEST(Hal, KnowsTheClock) {
  const Reading clock = core_clock_mhz(nullptr);
#if defined(__x86_64__)
  EXPECT_GT(clock.value, 100);  // a thread that shares its core, or runs under a checker, seems slower
  EXPECT_LT(clock.value, 10'000);
  EXPECT_EQ(clock.source, Source::kModelled);
#else
  EXPECT_EQ(clock.source, Source::kAbsent);
#endif
}

}  // namespace
}  // namespace neap

#include "pool/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "core/random.h"
#include "neap/error.h"

namespace neap {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

Lifetime ticks(double t) { return {t, t, t}; }

PoolRequest activation(std::uint32_t owner, std::int64_t bytes, double lifespan) {
  return {.owner = {owner}, .bytes = bytes, .lifespan = ticks(lifespan), .leave = Leave::kFirst};
}

BlockHandle take(Pool& pool, std::uint32_t owner, std::int64_t bytes, double lifespan) {
  const auto grant = pool.allocate_activation_memory(activation(owner, bytes, lifespan));
  EXPECT_TRUE(grant && grant->evictions.empty());
  return grant ? grant->block : BlockHandle{};
}

TEST(Pool, SharesAnAvailableBlockBeforeItMakesANewOne) {
  Pool pool(1024);
  const BlockHandle first = take(pool, 1, 128, 1);
  pool.release(first);
  pool.advance(1);
  const auto second = pool.allocate_activation_memory(activation(2, 128, 1));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->offset, 0);
  EXPECT_FALSE(second->is_new);
  const auto third = pool.allocate_activation_memory(activation(3, 128, 1));
  ASSERT_TRUE(third);
  EXPECT_EQ(third->offset, 128);
  EXPECT_TRUE(third->is_new);
  EXPECT_EQ(pool.counters().peak_bytes, 256);
}

TEST(Pool, ABlockIsGivenOnOnlyWhenItHasExpiredAndNobodyRefersToIt) {
  Pool pool(1024);
  const BlockHandle early = take(pool, 1, 64, 1);  // expires while it is referenced
  const BlockHandle late = take(pool, 2, 64, 10);  // not referenced before it expires
  pool.release(late);
  pool.advance(5);
  EXPECT_TRUE(pool.is_current(early));
  EXPECT_TRUE(pool.is_current(late));
  EXPECT_FALSE(pool.find_available_block(64, ticks(1)));
  pool.release(early);
  EXPECT_FALSE(pool.is_current(early));
  EXPECT_EQ(pool.find_available_block(64, ticks(1)), 0);
  pool.advance(10);
  EXPECT_FALSE(pool.is_current(late));
  EXPECT_TRUE(pool.find_available_block(128, ticks(1)));  // both in one piece
}

TEST(Pool, AHandleOfAnEarlierGenerationIsRefused) {
  Pool pool(64);
  const BlockHandle first = take(pool, 1, 64, 0);
  pool.release(first);
  const BlockHandle second = take(pool, 2, 64, 0);
  EXPECT_EQ(second.slot, first.slot);
  EXPECT_GT(second.generation, first.generation);
  EXPECT_EQ(pool.at(second).owner, OwnerId{2});
  EXPECT_THROW(pool.at(first), InternalError);
  EXPECT_THROW(pool.release(first), InternalError);
  EXPECT_THROW(pool.lock(first), InternalError);
}

// Space between neighbours that go soon is for what goes soon.
TEST(Pool, PlacesBesideWhatGoesAtTheSameTime) {
  Pool pool(4096);
  take(pool, 1, 64, 100);
  const BlockHandle a = take(pool, 2, 64, 0);
  take(pool, 3, 64, 100);
  take(pool, 4, 64, 5);
  const BlockHandle b = take(pool, 5, 64, 0);
  take(pool, 6, 64, 5);
  pool.release(a);
  pool.release(b);
  EXPECT_EQ(pool.find_available_block(64, ticks(100)), 64);
  EXPECT_EQ(pool.find_available_block(64, ticks(5)), 256);
}

TEST(Pool, TheOldestIsTheOneWithTheLongestRemainingLifespan) {
  Pool pool(256);
  take(pool, 1, 64, 20);
  pool.advance(10);
  const BlockHandle b = take(pool, 2, 64, 12);  // ends at 22, the first at 20
  take(pool, 3, 64, 3);
  EXPECT_EQ(pool.find_oldest_activation(), b);
  for (const std::uint32_t owner : {2U, 1U, 3U}) {
    const auto spilled = pool.spill_oldest_activation();
    ASSERT_TRUE(spilled);
    EXPECT_EQ(spilled->owner, OwnerId{owner});
    EXPECT_TRUE(spilled->is_needed);
    EXPECT_FALSE(pool.is_current(spilled->block));
  }
  EXPECT_FALSE(pool.spill_oldest_activation());
}

TEST(Pool, SpillsUntilTheSpaceHangsTogetherAndSparesTheRest) {
  Pool pool(256);
  take(pool, 1, 64, 30);
  take(pool, 2, 64, 10);
  take(pool, 3, 64, 20);
  take(pool, 4, 64, 5);
  const auto grant = pool.allocate_activation_memory(activation(5, 128, 1));
  ASSERT_TRUE(grant);
  // By age: 1, 3, 2; with 2 gone the first three hang together, and two of them are enough.
  EXPECT_EQ(grant->evictions.size(), 2U);
  for (const Eviction& e : grant->evictions) EXPECT_NE(e.owner, OwnerId{4});
  EXPECT_EQ(pool.counters().spilled, 2);
}

TEST(Pool, WhatNobodyNeedsGoesBeforeAnythingThatMustBeMoved) {
  Pool pool(128);
  take(pool, 1, 64, 50);
  pool.release(take(pool, 2, 64, kForever));  // predicted to stay for ever, but nobody refers to it
  const auto grant = pool.allocate_activation_memory(activation(3, 64, 1));
  ASSERT_TRUE(grant);
  ASSERT_EQ(grant->evictions.size(), 1U);
  EXPECT_EQ(grant->evictions[0].owner, OwnerId{2});
  EXPECT_FALSE(grant->evictions[0].is_needed);
  EXPECT_EQ(pool.counters().reclaimed, 1);
  EXPECT_EQ(pool.counters().spilled, 0);
}

TEST(Pool, GradientsLeaveLastAndWhatIsHeldNever) {
  Pool pool(192);
  const BlockHandle held = take(pool, 1, 64, 90);
  pool.lock(held);
  PoolRequest gradient = activation(2, 64, 80);
  gradient.leave = Leave::kLast;
  ASSERT_TRUE(pool.allocate_activation_memory(gradient));
  take(pool, 3, 64, 1);
  EXPECT_EQ(pool.spill_oldest_activation()->owner, OwnerId{3});
  EXPECT_EQ(pool.spill_oldest_activation()->owner, OwnerId{2});
  EXPECT_FALSE(pool.spill_oldest_activation());
  EXPECT_FALSE(pool.allocate_activation_memory(activation(4, 192, 1)));
  pool.unlock(held);
  EXPECT_TRUE(pool.allocate_activation_memory(activation(4, 192, 1)));
}

TEST(Pool, BlocksGoToThoseThatAreRequiredFirst) {
  Pool pool(128);
  const BlockHandle a = take(pool, 1, 128, 0);
  pool.wait_for_block({.request = activation(10, 64, 5), .required = 9});
  pool.wait_for_block({.request = activation(11, 128, 5), .required = 4});
  pool.wait_for_block({.request = activation(12, 64, 5), .required = 7});
  EXPECT_TRUE(pool.reassign(100).empty());
  pool.release(a);
  const auto first = pool.reassign(100);
  ASSERT_EQ(first.size(), 1U);  // and those behind it do not take what is left for it
  EXPECT_EQ(first[0].owner, OwnerId{11});
  pool.drop(first[0].block);
  const auto rest = pool.reassign(8);  // 10 is not required before 8
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].owner, OwnerId{12});
  EXPECT_EQ(pool.waiting(), 1U);
}

TEST(Pool, RefusesWhatItCanNeverHold) {
  EXPECT_THROW(Pool(0), UserError);
  EXPECT_THROW(Pool(-64), UserError);
  Pool pool(100);  // one line of 64 bytes
  EXPECT_EQ(pool.capacity(), 64);
  EXPECT_FALSE(pool.allocate_activation_memory(activation(1, 65, 1)));
  EXPECT_TRUE(pool.allocate_activation_memory(activation(1, 64, 1)));
}

// Any stream of requests with any predictions: live blocks never overlap, generations rise, references balance.
class PoolFuzz : public testing::TestWithParam<int> {};

TEST_P(PoolFuzz, KeepsItsPromises) {
  RandomStream random(static_cast<std::uint64_t>(GetParam()));
  const auto capacity = static_cast<std::int64_t>(1024 + random.below(8) * 1000);
  Pool pool(capacity, random.below(2) == 0 ? 64 : 4);
  constexpr double kOdd[] = {0, 1, 7, 300, -5, kForever, -kForever, std::numeric_limits<double>::quiet_NaN()};
  struct Mine {
    BlockHandle block;
    int references = 0;
  };
  std::map<std::uint32_t, Mine> live;  // by owner
  std::map<std::uint32_t, std::uint64_t> generations;
  std::vector<std::uint32_t> waiting;
  const auto lose = [&](const Grant& grant) {
    for (const Eviction& e : grant.evictions) {
      const auto at = live.find(e.owner.index);
      ASSERT_EQ(at != live.end(), e.is_needed) << "what must be kept is what somebody refers to";
      if (at != live.end()) live.erase(at);
    }
  };
  const auto gain = [&](const Grant& grant, int references) {
    EXPECT_GT(grant.block.generation, generations[grant.block.slot]);
    generations[grant.block.slot] = grant.block.generation;
    live[grant.owner.index] = {grant.block, references};
  };
  for (std::uint32_t i = 0; i < 400; ++i) {
    pool.advance(i / 2);
    PoolRequest request{.owner = {i},
                        .bytes = static_cast<std::int64_t>(random.below(600)),
                        .references = 1 + static_cast<int>(random.below(3)),
                        .leave = static_cast<Leave>(random.below(3)),
                        .lies_low = random.below(4) == 0,
                        .wish = static_cast<std::int64_t>(random.below(2048)) - 1024};
    for (double* p : {&request.lifespan.p10, &request.lifespan.p50, &request.lifespan.p90}) *p = kOdd[random.below(8)];
    if (random.below(8) == 0) {
      pool.wait_for_block({.request = request, .required = i / 2 + static_cast<Tick>(random.below(20))});
    } else if (const auto grant = pool.allocate_activation_memory(request)) {
      lose(*grant);
      gain(*grant, request.references);
    }
    for (const Grant& grant : pool.reassign(i / 2 + 10)) gain(grant, pool.at(grant.block).references);
    for (auto it = live.begin(); it != live.end();) {
      ASSERT_TRUE(pool.is_current(it->second.block)) << "a referenced block was given on";
      ASSERT_EQ(pool.at(it->second.block).references, it->second.references);
      const bool touches = random.below(4) == 0;
      if (touches) pool.release(it->second.block);
      it = touches && --it->second.references == 0 ? live.erase(it) : std::next(it);
    }
    std::int64_t end = 0;
    for (const BlockHandle handle : pool.blocks()) {
      const PoolBlock& block = pool.at(handle);
      ASSERT_GE(block.offset, end) << "two live blocks overlap";
      end = block.offset + block.bytes;
    }
    ASSERT_LE(end, capacity);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PoolFuzz, testing::Range(0, 60));

}  // namespace
}  // namespace neap

#include "plan/pack.h"

#include <gtest/gtest.h>

#include <chrono>

#include "neap/error.h"
#include "plan/pack_testing.h"
#include "plan/pack_validate.h"

namespace neap {
namespace {

Packing pack_soundly(const PackProblem& problem, const PackLimits& limits = {}) {
  Packing p = pack(problem, limits);
  EXPECT_EQ(find_fault(problem, p), "");
  EXPECT_GE(p.height, p.lower_bound - (problem.alignment - 1));
  return p;
}

TEST(Pack, NothingTakesNothing) {
  const Packing p = pack_soundly({.capacity = 0});
  EXPECT_EQ(p.height, 0);
  EXPECT_TRUE(p.fits);
}

TEST(Pack, ReusesWhatIsFree) {
  const std::vector<PackItem> items = {{.lower = 0, .upper = 2, .size = 64}, {.lower = 2, .upper = 4, .size = 64}};
  EXPECT_EQ(pack_soundly({.items = items}).height, 64);
}

TEST(Pack, UpperIsExclusive) {
  const std::vector<PackItem> items = {{.lower = 0, .upper = 3, .size = 64}, {.lower = 2, .upper = 4, .size = 64}};
  EXPECT_EQ(pack_soundly({.items = items}).height, 128);
  EXPECT_EQ(max_live(items), 128);
}

TEST(Pack, SizeZeroAndTimesBelowZero) {
  const std::vector<PackItem> items = {{.lower = -5, .upper = 9, .size = 0}, {.lower = -9, .upper = -5, .size = 7}};
  EXPECT_EQ(pack_soundly({.items = items, .capacity = 7}).height, 7);
}

// Two long-lived items that come late find the bottom taken by short-lived ones.
TEST(Pack, FirstFitIsSoundAndSometimesHigher) {
  const std::vector<PackItem> items = {{.lower = 0, .upper = 2, .size = 64},
                                       {.lower = 1, .upper = 4, .size = 128},
                                       {.lower = 3, .upper = 6, .size = 128}};
  const PackProblem problem{.items = items};
  const Packing first = pack_first_fit(problem);
  EXPECT_EQ(find_fault(problem, first), "");
  EXPECT_EQ(first.height, 320);
  EXPECT_EQ(pack_soundly(problem).height, 256);
  RandomStream random(3);
  for (int i = 0; i < 5; ++i) {
    const std::vector<PackItem> many = random_items(random, {.count = 60});
    const PackProblem p{.items = many, .alignment = 4};
    const Packing plain = pack_first_fit(p);
    EXPECT_EQ(find_fault(p, plain), "");
    EXPECT_GE(plain.height, pack_soundly(p).height);
  }
}

TEST(Pack, OffsetsAreAligned) {
  RandomStream random(3);
  for (int round = 0; round < 50; ++round) {
    const auto items = random_items(random, {.count = 1 + random.below(40)});
    const Packing p = pack_soundly({.items = items, .alignment = 64});
    EXPECT_LE(p.height, 2 * p.lower_bound);
  }
}

TEST(Pack, RandomProblemsAreSoundAndNearTheBound) {
  RandomStream random(7);
  for (int round = 0; round < 100; ++round) {
    const auto items = random_items(random, {.count = 1 + random.below(120), .ticks = 200, .life = 60, .unit = 64});
    const Packing p = pack_soundly({.items = items}, {.improve_steps = 1'000'000});
    EXPECT_LE(static_cast<double>(p.height), 1.05 * static_cast<double>(p.lower_bound));
  }
}

TEST(Pack, FewItemsAreAsLowAsCanBe) {
  RandomStream random(17);
  int above_bound = 0;
  for (int round = 0; round < 300; ++round) {
    const auto items = round % 3 == 0
                           ? random_items(random, {.count = 1 + random.below(7), .ticks = 8, .life = 5, .size = 6})
                           : full_load_items(random, 16, 7 + static_cast<std::int64_t>(random.below(3)));
    const std::int64_t lowest = lowest_height(items);
    EXPECT_EQ(pack_soundly({.items = items}).height, lowest);
    EXPECT_TRUE(pack_soundly({.items = items, .capacity = lowest}).fits);
    const Packing below = pack_soundly({.items = items, .capacity = lowest - 1});
    EXPECT_FALSE(below.fits);
    const bool is_above_bound = lowest > below.lower_bound;
    above_bound += is_above_bound ? 1 : 0;
    EXPECT_NE(below.reason.find(is_above_bound ? "exhaustive" : "are alive at"), std::string::npos) << below.reason;
  }
  EXPECT_GT(above_bound, 0);
}

TEST(Pack, NoSlackAtAll) {
  RandomStream random(13);
  for (int round = 0; round < 20; ++round) {
    const auto items = cut_rectangle(random, 60, 1000, 1000);
    EXPECT_EQ(pack_soundly({.items = items, .capacity = 1000}).height, 1000);
  }
}

TEST(Pack, SaysWhatIsTooMuchAndWhen) {
  const std::vector<PackItem> items = {{.lower = 0, .upper = 30, .size = 10},
                                       {.lower = 20, .upper = 40, .size = 5},
                                       {.lower = 40, .upper = 50, .size = 9}};
  const Packing p = pack_soundly({.items = items, .capacity = 12});
  EXPECT_FALSE(p.fits);
  EXPECT_EQ(p.reason, "15 bytes are alive at 20, 3 more than the capacity of 12");
}

TEST(Pack, SaysWhenItGaveUp) {
  RandomStream random(17);
  const auto items = cut_rectangle(random, 400, 100'000, 100'000);
  const Packing p = pack_soundly({.items = items, .capacity = 100'000}, {.steps = 1000, .improve_steps = 1000});
  EXPECT_FALSE(p.fits);
  EXPECT_NE(p.reason.find("search limit reached; best height found"), std::string::npos) << p.reason;
}

TEST(Pack, StopsWhenTimeIsOver) {
  RandomStream random(17);
  const auto items = full_load_items(random, 500, 1000);
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  pack_soundly({.items = items, .capacity = 1000},
               {.steps = kNoCapacity, .improve_steps = kNoCapacity, .is_over = [&] { return seconds() > 0.2; }});
  EXPECT_GT(seconds(), 0.2);
  EXPECT_LT(seconds(), 10);
}

TEST(Pack, EqualProblemsGiveEqualPackings) {
  RandomStream random(19);
  const auto items = random_items(random, {.count = 300, .ticks = 500, .life = 60});
  EXPECT_EQ(pack({.items = items}).offsets, pack({.items = items}).offsets);
}

TEST(Pack, RefusesWhatIsNoProblem) {
  const auto refuses = [](const PackItem& item) { EXPECT_THROW(pack({.items = {&item, 1}}), UserError); };
  refuses({.lower = 1, .upper = 1, .size = 1});
  refuses({.lower = 2, .upper = 1, .size = 1});
  refuses({.lower = 0, .upper = 1, .size = -1});
  refuses({.lower = 0, .upper = 1, .size = INT64_MAX});
  refuses({.lower = INT64_MIN, .upper = 1, .size = 1});
  const std::vector<PackItem> too_much(2, {.lower = 0, .upper = 1, .size = (std::int64_t{1} << 61) + 1});
  EXPECT_THROW(pack({.items = too_much}), UserError);
  EXPECT_THROW(pack({.alignment = 0}), UserError);
}

TEST(PackValidate, SeesEveryFault) {
  const std::vector<PackItem> items = {{.lower = 0, .upper = 2, .size = 4}, {.lower = 1, .upper = 3, .size = 4}};
  const PackProblem problem{.items = items, .capacity = 8};
  const Packing good{.offsets = {4, 0}, .height = 8, .lower_bound = 8};
  EXPECT_EQ(find_fault(problem, good), "");
  const auto fault_after = [&](void (*change)(Packing&)) {
    Packing p = good;
    change(p);
    return find_fault(problem, p);
  };
  EXPECT_NE(fault_after([](Packing& p) { p.offsets = {3, 0}, p.height = 7; }), "");
  EXPECT_NE(fault_after([](Packing& p) { p.offsets = {-4, 0}, p.height = 4; }), "");
  EXPECT_NE(fault_after([](Packing& p) { p.offsets.pop_back(); }), "");
  EXPECT_NE(fault_after([](Packing& p) { p.height = 9; }), "");
  EXPECT_NE(fault_after([](Packing& p) { p.fits = false; }), "");
  EXPECT_NE(fault_after([](Packing& p) { p.reason = "none"; }), "");
  EXPECT_NE(find_fault({.items = items, .capacity = 7}, good), "");
  EXPECT_NE(find_fault({.items = items, .capacity = 8, .alignment = 8}, good), "");
}

}  // namespace
}  // namespace neap

#include "core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace neap {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Known answers of Random123's philox4x32, 10 rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox{0}(0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox{~0ULL}(~0ULL, ~0ULL), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox{0x299f31d0a4093822}(0x85a308d3243f6a88, 0x0370734413198a2e),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, KeyIndexAndStreamMatter) {
  const Words base = Philox{1}(2, 3);
  EXPECT_NE(base, Philox{2}(2, 3));
  EXPECT_NE(base, Philox{1}(3, 3));
  EXPECT_NE(base, Philox{1}(2, 4));
  EXPECT_EQ(base, Philox{1}(2, 3));
}

TEST(Mix, OrderMatters) {
  EXPECT_NE(mix(1, 2), mix(2, 1));
  EXPECT_NE(mix(mix(0, 1), 2), mix(mix(0, 2), 1));
}

TEST(HashBytes, EveryByteAndTheLengthCount) {
  std::set<std::uint64_t> seen;
  std::string text(17, 'a');
  seen.insert(hash_text(text));
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = 'b';
    seen.insert(hash_text(other));
  }
  for (std::size_t n = 0; n < text.size(); ++n) seen.insert(hash_text(text.substr(0, n)));
  seen.insert(hash_text(text, 1));
  EXPECT_EQ(seen.size(), 17U + 17U + 2U);
  EXPECT_NE(hash_text(std::string(8, '\0')), hash_text(std::string(9, '\0')));
}

TEST(UnitFloat, InZeroToOne) {
  EXPECT_EQ(unit_float(0), 0.0F);
  EXPECT_EQ(unit_float(0x80000000U), 0.5F);
  EXPECT_LT(unit_float(0xFFFFFFFFU), 1.0F);
}

TEST(RandomStream, FollowsTheCounter) {
  RandomStream stream(5, 9);
  for (std::uint64_t index = 0; index < 3; ++index) {
    for (const std::uint32_t word : Philox{5}(index, 9)) EXPECT_EQ(stream.next(), word);
  }
}

TEST(RandomStream, BelowIsEven) {
  RandomStream stream(1);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) {
    const std::uint64_t n = stream.below(7);
    ASSERT_LT(n, 7U);
    ++counts[n];
  }
  for (const int n : counts) EXPECT_NEAR(n, 10000, 500);
}

TEST(RandomStream, NormalHasUnitVariance) {
  RandomStream stream(2);
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double x = stream.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.02);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
}

}  // namespace
}  // namespace neap

#include "pool/slot_places.h"

#include <gtest/gtest.h>

#include <random>

namespace neap {
namespace {

TEST(SlotPlaces, WithoutLivesLieBehindEachOther) {
  const std::vector<std::int64_t> bytes = {10, 20, 30};
  const SlotPlaces places = place_slots(bytes, {});
  EXPECT_EQ(places.offsets, (std::vector<std::int64_t>{0, 10, 30}));
  EXPECT_EQ(places.bytes, 60);
}

TEST(SlotPlaces, AreSharedByThoseThatNeverMeet) {
  const std::vector<std::int64_t> bytes = {10, 20, 10, 25};
  const std::vector<SlotLife> lives = {{0, 3}, {1, 9}, {4, 6}, {7, 8}};
  const SlotPlaces places = place_slots(bytes, lives);
  EXPECT_EQ(places.offsets, (std::vector<std::int64_t>{0, 10, 0, 30}));
  EXPECT_EQ(places.bytes, 55);
  const std::vector<SlotLife> touching = {{0, 4}, {4, 9}};
  EXPECT_EQ(place_slots(std::vector<std::int64_t>{10, 10}, touching).bytes, 20) << "the read may not be over";
}

TEST(SlotPlaces, NeverOverlapInUse) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::int64_t> bytes;
    std::vector<SlotLife> lives;
    std::int64_t sum = 0;
    for (int i = 0; i < 80; ++i) {
      bytes.push_back(1 + random() % 50);
      sum += bytes.back();
      const std::uint32_t begin = random() % 200;
      lives.push_back({begin, begin + static_cast<std::uint32_t>(random() % 60)});
    }
    const SlotPlaces places = place_slots(bytes, lives);
    EXPECT_LT(places.bytes, sum);
    for (std::size_t a = 0; a < bytes.size(); ++a) {
      EXPECT_LE(places.offsets[a] + bytes[a], places.bytes);
      for (std::size_t b = 0; b < a; ++b) {
        const bool meet = lives[a].begin <= lives[b].end && lives[b].begin <= lives[a].end;
        const bool overlap =
            places.offsets[a] < places.offsets[b] + bytes[b] && places.offsets[b] < places.offsets[a] + bytes[a];
        EXPECT_FALSE(meet && overlap) << a << " " << b;
      }
    }
  }
}

}  // namespace
}  // namespace neap

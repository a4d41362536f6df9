#include <gtest/gtest.h>

#include <cstring>

#include "core/bytes.h"
#include "device/device.h"

namespace neap {
namespace {

TEST(Arena, GivesPagesBackAndGrowsAgain) {
  const auto device = make_cpu_device(1);
  const auto arena = device->make_arena(16 * kMiB, true);
  EXPECT_EQ(arena->bytes(), 16 * kMiB);
  std::memset(arena->base(), 1, 16 * kMiB);
  EXPECT_EQ(arena->resident_bytes(), 16 * kMiB);
  arena->resize(5 * kMiB + 1);
  EXPECT_EQ(arena->bytes(), 5 * kMiB + 1);
  EXPECT_LE(arena->resident_bytes(), 5 * kMiB + kPage);
  EXPECT_EQ(arena->base()[5 * kMiB], std::byte{1});  // what lies below stays
  arena->resize(16 * kMiB);
  EXPECT_EQ(arena->base()[16 * kMiB - 1], std::byte{0});
  std::memset(arena->base(), 2, 16 * kMiB);
  EXPECT_EQ(arena->resident_bytes(), 16 * kMiB);
}

TEST(ArenaDeathTest, NothingAboveCanBeTouched) {
  const auto device = make_cpu_device(1);
  const auto arena = device->make_arena(4 * kMiB, false);
  arena->resize(kMiB);
  EXPECT_DEATH(arena->base()[kMiB] = std::byte{1}, "");
  EXPECT_EQ(arena->base()[kMiB - 1], std::byte{0});
}

TEST(Arena, BorrowedMemoryIsNotGivenBack) {
  const auto device = make_cpu_device(1);
  std::vector<std::byte> memory(kMiB, std::byte{7});
  const auto arena = device->arena_in(memory);
  const std::int64_t room = arena->capacity();
  arena->resize(room / 2);
  EXPECT_EQ(arena->bytes(), room / 2);
  EXPECT_EQ(memory.back(), std::byte{7});
  arena->resize(room);
  EXPECT_EQ(arena->bytes(), room);
}

}  // namespace
}  // namespace neap

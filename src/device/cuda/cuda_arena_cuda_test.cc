#include "device/cuda/cuda.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/bytes.h"
#include "device/cuda/cuda_arena.h"
#include "neap/error.h"

namespace neap {
namespace {

TEST(CudaArena, BytesComeBack) {
  const auto device = make_cuda_device();
  const auto arena = device->make_arena(10 * kMiB + 64, false);
  EXPECT_EQ(arena->bytes(), 10 * kMiB + 64);
  std::vector<std::byte> sent(9 * kMiB + 3);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 + i / 1000);
  device->write(arena->base() + kMiB, sent.data(), static_cast<std::int64_t>(sent.size()));
  std::vector<std::byte> got(sent.size());
  device->read(got.data(), arena->base() + kMiB, static_cast<std::int64_t>(got.size()));
  EXPECT_TRUE(sent == got);
}

TEST(CudaArena, ShrinksAndGrowsInPlace) {
  const auto device = make_cuda_device();
  CudaArena arena(64 * kMiB);
  std::byte* const base = arena.base();
  const int kept = 1234;
  device->write(base, &kept, sizeof kept);
  device->synchronise();
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  NEAP_CHECK_CUDA(cudaMemGetInfo(&before, &total));
  arena.resize(4 * kMiB);
  NEAP_CHECK_CUDA(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(arena.resident_bytes(), 4 * kMiB);
  EXPECT_GE(after, before + 60 * kMiB);
  arena.resize(32 * kMiB);
  EXPECT_EQ(arena.base(), base);
  const int last = 5;
  device->write(base + 32 * kMiB - 4, &last, sizeof last);
  int got[2] = {};
  device->read(&got[0], base, sizeof(int));
  device->read(&got[1], base + 32 * kMiB - 4, sizeof(int));
  EXPECT_EQ(got[0], kept);
  EXPECT_EQ(got[1], last);
}

TEST(CudaArena, RefusesMoreThanThereIs) {
  CudaArena arena(kGiB * 4096);
  EXPECT_THROW(arena.base(), DeviceError);
  arena.resize(kMiB);  // below its capacity it takes what it needs
  EXPECT_NE(arena.base(), nullptr);
  EXPECT_EQ(arena.resident_bytes(), 2 * kMiB);
  EXPECT_THROW(arena.resize(kGiB * 2048), DeviceError);
  EXPECT_EQ(arena.bytes(), kMiB);
  EXPECT_EQ(arena.resident_bytes(), 2 * kMiB);
}

TEST(CudaDevice, TimesWithoutWaiting) {
  const auto device = make_cuda_device();
  const auto arena = device->make_arena(256 * kMiB, false);
  const auto timer = device->make_timer();
  const auto clear = [&] {
    NEAP_CHECK_CUDA(cudaMemsetAsync(arena->base(), 0, 256 * kMiB, CudaContext::get().compute()));
  };
  clear();
  timer->mark();
  clear();
  timer->mark();
  timer->mark();
  std::vector<double> ms;
  timer->read(ms);
  ASSERT_EQ(ms.size(), 2U);
  EXPECT_GT(ms[0], 5 * ms[1]);
  EXPECT_GT(device->context_bytes(), 0);
}

}  // namespace
}  // namespace neap

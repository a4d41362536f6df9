// Transfers run beside the calls, and as fast as the link is, by the GPU's own records.
#include <gtest/gtest.h>

#include "core/bytes.h"
#include "device/activity.h"
#include "device/cuda/cuda.h"
#include "pool/spill_store.h"

namespace neap {
namespace {

constexpr std::int64_t kBytes = 256 * kMiB;
constexpr double kLinkBytesPerMs = 55e6;  // of the card that bench/CUDA.md is about

class OverlapTest : public testing::Test {
 protected:
  OverlapTest() : device_(make_cuda_device()), arena_(device_->make_arena(2 * kBytes, false)) {}
  void SetUp() override {
    std::string why;
    log_ = device_->activities(why);
    ASSERT_NE(log_, nullptr) << why;
  }
  void fill(std::int64_t bytes, int value) {
    NEAP_CHECK_CUDA(
        cudaMemsetAsync(arena_->base(), value, static_cast<std::size_t>(bytes), CudaContext::get().compute()));
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Arena> arena_;
  ActivityLog* log_ = nullptr;
};

// Out and in again beside calls that take longer than both.
TEST_F(OverlapTest, TransfersLieUnderTheCalls) {
  const auto store = make_cuda_spill_store({kBytes}, {.host_ram_bytes = kBytes});
  const auto step = [&] {
    store->begin_write(0, arena_->base() + kBytes);
    for (int i = 0; i < 150; ++i) fill(kBytes, i);
    store->wait(0);
    store->begin_read(0, arena_->base() + kBytes);
    for (int i = 0; i < 150; ++i) fill(kBytes, i);
    store->wait(0);
  };
  step();
  const auto replay = device_->capture(step);
  NotedActivities noted(*log_);
  replay->run();
  const Busy busy = busy_of(noted.take());
  EXPECT_EQ(busy.link_bytes, 2 * kBytes);
  ASSERT_GT(busy.compute_ms, busy.link_ms);
  EXPECT_GT(busy.overlap_ms, 0.8 * busy.link_ms);
}

TEST_F(OverlapTest, TheLinkIsFullWhenItIsWaitedFor) {
  const auto store = make_cuda_spill_store({kBytes, kBytes}, {.host_ram_bytes = 2 * kBytes});
  const auto there_and_back = [&] {
    for (const std::uint32_t slot : {0U, 1U}) store->begin_write(slot, arena_->base() + slot * kBytes);
    for (const std::uint32_t slot : {0U, 1U}) store->wait(slot);
    for (const std::uint32_t slot : {0U, 1U}) store->begin_read(slot, arena_->base() + slot * kBytes);
    for (const std::uint32_t slot : {0U, 1U}) store->wait(slot);
  };
  there_and_back();
  NotedActivities noted(*log_);
  there_and_back();
  const Busy busy = busy_of(noted.take());
  EXPECT_EQ(busy.link_bytes, 4 * kBytes);
  EXPECT_GT(static_cast<double>(busy.link_bytes) / busy.link_ms, 0.8 * kLinkBytesPerMs);
}

}  // namespace
}  // namespace neap

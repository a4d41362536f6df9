// What CUPTI says of the GPU's work.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/bytes.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cupti.h"
#include "device/cuda/pinned.h"

namespace neap {
namespace {

class CuptiTest : public testing::Test {
 protected:
  CuptiTest() : device_(make_cuda_device()), arena_(device_->make_arena(64 * kMiB, false)) {}
  void SetUp() override {
    std::string why;
    log_ = device_->activities(why);
    ASSERT_NE(log_, nullptr) << why;
  }
  void fill(std::int64_t bytes, int value = 1) {
    NEAP_CHECK_CUDA(cudaMemsetAsync(arena_->base(), value, static_cast<std::size_t>(bytes), context_.compute()));
  }
  static std::vector<Activity> tagged(const std::vector<Activity>& all, std::uint32_t tag) {
    std::vector<Activity> out;
    std::copy_if(all.begin(), all.end(), std::back_inserter(out), [&](const Activity& a) { return a.tag == tag; });
    return out;
  }

  CudaContext& context_ = CudaContext::get();
  std::unique_ptr<Device> device_;
  std::unique_ptr<Arena> arena_;
  ActivityLog* log_ = nullptr;
};

TEST_F(CuptiTest, NotesWorkWithItsTagWhileItIsOn) {
  const PinnedMemory host(kMiB);
  arena_->base();
  fill(kMiB);
  NotedActivities noted(*log_);
  log_->tag(3);
  fill(64 * kMiB);
  log_->tag(5);
  NEAP_CHECK_CUDA(cudaMemcpyAsync(host.data(), arena_->base(), kMiB, cudaMemcpyDeviceToHost, context_.copies()));
  log_->tag(Activity::kNoTag);
  fill(kMiB);
  const std::vector<Activity> all = noted.take();
  EXPECT_EQ(all.size(), 3U);
  const std::vector<Activity> fills = tagged(all, 3);
  ASSERT_EQ(fills.size(), 1U);
  EXPECT_EQ(fills[0].kind, ActivityKind::kFill);
  EXPECT_EQ(fills[0].bytes, 64 * kMiB);
  EXPECT_GT(fills[0].ended_ns, fills[0].begun_ns);
  const std::vector<Activity> copies = tagged(all, 5);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].kind, ActivityKind::kCopyOut);
  EXPECT_NE(copies[0].stream, fills[0].stream);
  EXPECT_EQ(tagged(all, Activity::kNoTag).size(), 1U);
  fill(kMiB);
  device_->synchronise();
  NotedActivities again(*log_);
  EXPECT_TRUE(again.take().empty()) << "what ran while it was off";
}

TEST_F(CuptiTest, WorkOfAGraphHasTheTagsOfItsCapture) {
  const auto replay = device_->capture([&] {
    for (const std::uint32_t tag : {7U, 8U}) {
      log_->tag(tag);
      fill(static_cast<std::int64_t>(tag) * kMiB);
    }
    log_->tag(Activity::kNoTag);
  });
  for (int i = 0; i < 2; ++i) {
    NotedActivities noted(*log_);
    replay->run();
    const std::vector<Activity> all = noted.take();
    for (const std::uint32_t tag : {7U, 8U}) {
      const std::vector<Activity> fills = tagged(all, tag);
      ASSERT_EQ(fills.size(), 1U) << tag;
      EXPECT_EQ(fills[0].bytes, static_cast<std::int64_t>(tag) * kMiB);
    }
  }
}

}  // namespace
}  // namespace neap

// Tensors that leave the GPU and come back: by pinned memory, by disk, by both, one by one and captured.
#include <gtest/gtest.h>

#include <vector>

#include "core/bytes.h"
#include "device/cuda/cuda.h"
#include "neap/error.h"
#include "pool/spill_store.h"

namespace neap {
namespace {

const std::vector<std::int64_t> kSlots = {5 * kMiB + 123, 17, 4096, 3 * kMiB};

std::vector<std::byte> some_bytes(std::int64_t count, unsigned seed) {
  std::vector<std::byte> out(static_cast<std::size_t>(count));
  for (std::byte& b : out) {
    seed = seed * 1664525U + 1013904223U;
    b = static_cast<std::byte>(seed >> 24U);
  }
  return out;
}

// The slots' tensors on the device, one behind the other; away() overwrites them.
class GpuStoreTest : public testing::Test {
 protected:
  GpuStoreTest() : device_(make_cuda_device()), arena_(device_->make_arena(16 * kMiB, false)) {
    spill_store_maker() = make_spill_store;
    std::int64_t end = 0;
    for (const std::int64_t bytes : kSlots) {
      offsets_.push_back(end);
      end += align_up(bytes, kPage);
    }
  }

  void put(unsigned seed) {
    for (std::size_t i = 0; i < kSlots.size(); ++i) {
      const std::vector<std::byte> bytes = some_bytes(kSlots[i], seed + static_cast<unsigned>(i));
      device_->write(at(i), bytes.data(), kSlots[i]);
    }
  }
  void expect_back(unsigned seed) {
    for (std::size_t i = 0; i < kSlots.size(); ++i) {
      std::vector<std::byte> got(static_cast<std::size_t>(kSlots[i]));
      device_->read(got.data(), at(i), kSlots[i]);
      EXPECT_TRUE(got == some_bytes(kSlots[i], seed + static_cast<unsigned>(i))) << i;
    }
  }
  // All of them out, overwritten, and in.
  void round_trip(SpillStore& store) {
    for (std::uint32_t i = 0; i < kSlots.size(); ++i) store.begin_write(i, at(i));
    for (std::uint32_t i = 0; i < kSlots.size(); ++i) store.wait(i);
    NEAP_CHECK_CUDA(cudaMemsetAsync(arena_->base(), 0x5A, 16 * kMiB, CudaContext::get().compute()));
    for (std::uint32_t i = 0; i < kSlots.size(); ++i) store.begin_read(i, at(i));
    for (std::uint32_t i = 0; i < kSlots.size(); ++i) store.wait(i);
  }
  void there_and_back(const SpillOptions& options, bool is_captured) {
    const auto store = make_cuda_spill_store(kSlots, options);
    EXPECT_EQ(store->is_on_stream(), is_captured);
    for (const unsigned seed : {1U, 100U}) {
      put(seed);
      round_trip(*store);
      expect_back(seed);
      const SpillCounters c = store->counters();
      EXPECT_EQ(c.written_bytes, (seed == 1 ? 1 : 2) * (8 * kMiB + 123 + 17 + 4096));
      EXPECT_EQ(c.written_bytes, c.read_bytes);
      EXPECT_GT(c.write_ms, 0);
      EXPECT_GT(c.read_ms, 0);
    }
  }

  std::byte* at(std::size_t slot) { return arena_->base() + offsets_[slot]; }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Arena> arena_;
  std::vector<std::int64_t> offsets_;
};

TEST_F(GpuStoreTest, BytesComeBackFromPinnedMemory) { there_and_back({.host_ram_bytes = 64 * kMiB}, true); }
TEST_F(GpuStoreTest, BytesComeBackFromDisk) { there_and_back({}, false); }
TEST_F(GpuStoreTest, BytesComeBackFromBothTiers) { there_and_back({.host_ram_bytes = 6 * kMiB}, false); }

TEST_F(GpuStoreTest, ReplaysCarryTheBytesOfTheirStep) {
  const auto store = make_cuda_spill_store(kSlots, {.host_ram_bytes = 64 * kMiB});
  const auto replay = device_->capture([&] { round_trip(*store); });
  for (const unsigned seed : {7U, 70U, 700U}) {
    put(seed);
    replay->run();
    store->note_replay();
    expect_back(seed);
  }
  const SpillCounters c = store->counters();
  EXPECT_EQ(c.written_bytes, 8 * kMiB + 123 + 17 + 4096);  // of the last one: the others were not asked for
  EXPECT_GT(c.write_ms, 0);
  const SlotTimes& first = store->times()[0];
  EXPECT_LT(first.write.begun_ns, first.write.ended_ns);
  EXPECT_LE(first.write.ended_ns, first.read.begun_ns);
}

TEST_F(GpuStoreTest, ALostTransferSaysSoAndTheNextStepWorks) {
  for (const char* fault : {"fail-write:2", "fail-read:2", "corrupt-read:1"}) {
    const auto store = make_cuda_spill_store(kSlots, {.faults = parse_spill_faults(fault)});
    put(3);
    EXPECT_THROW(round_trip(*store), SpillLost) << fault;
    store->drain();
    put(4);
    EXPECT_NO_THROW(round_trip(*store)) << fault;
    expect_back(4);
  }
}

TEST_F(GpuStoreTest, RefusesMoreThanCanBePinned) {
  EXPECT_THROW(make_cuda_spill_store({kGiB * 4096}, {.host_ram_bytes = kGiB * 8192}), DeviceError);
}

// Transfers run beside the calls: both together take less than one after the other.
TEST_F(GpuStoreTest, TransfersRunBesideTheCalls) {
  constexpr std::int64_t kBytes = 256 * kMiB;
  const auto arena = device_->make_arena(2 * kBytes, false);
  const auto store = make_cuda_spill_store({kBytes}, {.host_ram_bytes = kBytes});
  const cudaStream_t compute = CudaContext::get().compute();
  const auto calls = [&] {
    for (int i = 0; i < 60; ++i) {
      NEAP_CHECK_CUDA(cudaMemsetAsync(arena->base() + kBytes, i, kBytes, compute));
    }
  };
  const auto timer = device_->make_timer();
  const auto ms_of = [&](auto&& work) {
    timer->mark();
    work();
    timer->mark();
    std::vector<double> ms;
    timer->read(ms);
    return ms[0];
  };
  const auto transfers = [&] {
    store->begin_write(0, arena->base());
    store->wait(0);
  };
  calls();
  transfers();
  const double calls_ms = ms_of(calls);
  const double transfers_ms = ms_of(transfers);
  const double both_ms = ms_of([&] {
    store->begin_write(0, arena->base());
    calls();
    store->wait(0);
  });
  EXPECT_LT(both_ms, calls_ms + transfers_ms * 0.6);
}

}  // namespace
}  // namespace neap

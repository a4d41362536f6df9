#include "pool/spill_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>

#include "core/bytes.h"
#include "neap/error.h"
#include "pool/checksum_simd.h"
#include "pool/spill_file.h"
#include "pool/spill_tiers.h"

namespace neap {
namespace {

using Pages = std::unique_ptr<std::byte, void (*)(void*)>;

Pages pages(std::int64_t bytes) {
  return {static_cast<std::byte*>(std::aligned_alloc(4096, static_cast<std::size_t>(align_up(bytes, kPage)))),
          std::free};
}

void fill(std::byte* data, std::int64_t bytes, unsigned seed) {
  for (std::int64_t i = 0; i < bytes; ++i) {
    seed = seed * 1664525U + 1013904223U;
    data[i] = static_cast<std::byte>(seed >> 24U);
  }
}

// Odd sizes, one smaller than a page, one of several pieces.
const std::vector<std::int64_t> kSlots = {5 * kMiB + 123, 17, 4096, 3 * kMiB};

void there_and_back(SpillStore& store, const std::vector<std::int64_t>& slots, std::int64_t shift) {
  const SpillCounters before = store.counters();
  std::vector<Pages> out;
  std::vector<Pages> back;
  for (std::uint32_t i = 0; i < slots.size(); ++i) {
    out.push_back(pages(slots[i] + shift));
    back.push_back(pages(slots[i] + shift));
    fill(out[i].get() + shift, slots[i], i + 1);
    store.begin_write(i, out[i].get() + shift);
  }
  for (std::uint32_t i = 0; i < slots.size(); ++i) store.wait(i);
  for (std::uint32_t i = 0; i < slots.size(); ++i) store.begin_read(i, back[i].get() + shift);
  for (std::uint32_t i = 0; i < slots.size(); ++i) {
    store.wait(i);
    EXPECT_EQ(std::memcmp(out[i].get() + shift, back[i].get() + shift, static_cast<std::size_t>(slots[i])), 0) << i;
  }
  const SpillCounters c = store.counters();
  EXPECT_EQ(c.written_bytes - before.written_bytes, std::reduce(slots.begin(), slots.end()));
  EXPECT_EQ(c.read_bytes - before.read_bytes, std::reduce(slots.begin(), slots.end()));
}

void there_and_back(const SpillOptions& options, std::int64_t shift) {
  there_and_back(*make_spill_store(kSlots, options), kSlots, shift);
}

TEST(SpillStore, BytesComeBackFromDisk) { there_and_back({}, 0); }
TEST(SpillStore, BytesComeBackFromMemoryThatNoPageBegins) { there_and_back({}, 64); }
TEST(SpillStore, BytesComeBackFromRam) { there_and_back({.host_ram_bytes = 64 * kMiB}, 0); }
TEST(SpillStore, BytesComeBackFromBothTiers) { there_and_back({.host_ram_bytes = 6 * kMiB}, 0); }
TEST(SpillStore, AFileSystemInMemoryWillDo) {
  if (std::filesystem::is_directory("/dev/shm")) there_and_back({.folder = "/dev/shm"}, 0);
}

TEST(SpillStore, ServesOnePlanAfterTheOther) {
  const std::vector<std::int64_t> few = {4096};
  const std::vector<std::int64_t> more = {7 * kMiB, 5 * kMiB + 1, 99};
  for (const std::int64_t ram : {std::int64_t{0}, 6 * kMiB, 64 * kMiB}) {
    const SpillOptions options = {.host_ram_bytes = ram};
    const auto store = make_spill_store(kSlots, options);
    there_and_back(*store, kSlots, 0);
    const SpillCounters before = store->counters();
    for (const auto& slots : {few, more, kSlots}) {
      ASSERT_TRUE(store->serve(slots, options));
      EXPECT_EQ(store->times().size(), slots.size());
      const Pages back = pages(slots[0]);
      store->begin_read(0, back.get());
      EXPECT_THROW(store->wait(0), SpillLost) << "nothing of the plan before";
      there_and_back(*store, slots, 0);
      EXPECT_LE(store->counters().ram_bytes, ram);
    }
    EXPECT_GE(store->counters().ram_bytes, before.ram_bytes) << "is not given back in between";
    EXPECT_EQ(store->counters().written_bytes, before.written_bytes + std::reduce(few.begin(), few.end()) +
                                                   std::reduce(more.begin(), more.end()) +
                                                   std::reduce(kSlots.begin(), kSlots.end()));
  }
}

TEST(SpillStore, TheFileStaysForTheNextPlan) {
  const auto held = [](const SpillTiers& tiers) { return tiers.file_bytes(); };
  SpillTiers first({4 * kMiB}, {});
  SpillPlaces places = std::move(first).places();
  const SpillFile* const file = places.file.get();
  SpillTiers smaller({4096}, {}, std::move(places));
  EXPECT_EQ(held(smaller), 4 * kMiB);
  SpillTiers larger({9 * kMiB}, {}, std::move(smaller).places());
  EXPECT_EQ(held(larger), 9 * kMiB);
  places = std::move(larger).places();
  EXPECT_EQ(places.file.get(), file);
  // Where other memory would be pinned, it is another file, as long as it needs to be.
  const Pages memory = pages(4096);
  SpillTiers elsewhere({4096}, {.memory = {memory.get(), 4096}}, std::move(places));
  EXPECT_EQ(held(elsewhere), 4096);
  EXPECT_NE(std::move(elsewhere).places().file, nullptr);
}

TEST(SpillStore, DoesNotServeInAFolderThatIsNotThere) {
  const auto store = make_spill_store({4096}, {});
  EXPECT_FALSE(store->serve({4096}, {.folder = "/nonexistent"}));
}

TEST(SpillStore, WhatWasNeverWrittenIsNotRead) {
  for (const std::int64_t ram : {std::int64_t{0}, kMiB}) {
    const auto store = make_spill_store({4096}, {.host_ram_bytes = ram});
    const Pages back = pages(4096);
    store->begin_read(0, back.get());
    EXPECT_THROW(store->wait(0), SpillLost);
  }
}

TEST(SpillStore, LeavesNothingInItsFolder) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "neap-spill-test";
  std::filesystem::create_directories(folder);
  const auto store = make_spill_store(kSlots, {.folder = folder.string()});
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "while it runs";
  std::filesystem::remove_all(folder);
}

TEST(SpillStore, RefusesFoldersThatCannotBeUsed) {
  const auto message = [](const std::string& folder, std::int64_t bytes) -> std::string {
    try {
      make_spill_store({bytes}, {.folder = folder});
    } catch (const UserError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_NE(message("/no/such/folder", 1).find("/no/such/folder"), std::string::npos);
  EXPECT_NE(message("/dev/null", 1).find("no folder"), std::string::npos);
  EXPECT_NE(message("/proc", 1).find("cannot spill to '/proc'"), std::string::npos);
  EXPECT_NE(message("/tmp", 1LL << 55).find("do not fit"), std::string::npos);
}

SpillOptions with_fault(const std::string& text) { return {.faults = parse_spill_faults(text)}; }

void write_out(SpillStore& store, std::uint32_t slot, const std::byte* data) {
  store.begin_write(slot, data);
  store.wait(slot);
}

SpillLost lost_by(const std::function<void()>& act) {
  try {
    act();
  } catch (const SpillLost& lost) {
    return lost;
  }
  return {.what = "nothing"};
}

TEST(SpillStore, ALostTransferSaysSoAndTheNextOneWorks) {
  const Pages data = pages(3 * kMiB);
  fill(data.get(), 3 * kMiB, 1);
  const auto bad_disk = make_spill_store({kMiB}, with_fault("fail-write:1"));
  EXPECT_TRUE(lost_by([&] { write_out(*bad_disk, 0, data.get()); }).is_write);
  EXPECT_NO_THROW(write_out(*bad_disk, 0, data.get()));

  for (const char* fault : {"fail-read:1", "corrupt-read:1"}) {
    const auto store = make_spill_store({3 * kMiB}, with_fault(fault));
    const Pages back = pages(3 * kMiB);
    write_out(*store, 0, data.get());
    store->begin_read(0, back.get());
    const SpillLost lost = lost_by([&] { store->wait(0); });
    EXPECT_NE(lost.what, "nothing") << fault;
    EXPECT_FALSE(lost.is_write);
    store->drain();
    store->begin_read(0, back.get());
    EXPECT_NO_THROW(store->wait(0));
    EXPECT_EQ(std::memcmp(data.get(), back.get(), 3 * kMiB), 0) << fault;
  }
}

TEST(SpillStore, ASecondCopyStandsInForTheFirst) {
  for (const char* fault : {"fail-read:1", "corrupt-read:1"}) {
    SpillOptions options = with_fault(fault);
    options.mirror = true;
    const Pages data = pages(2 * kMiB);
    const Pages back = pages(2 * kMiB);
    fill(data.get(), 2 * kMiB, 5);
    const auto store = make_spill_store({2 * kMiB}, options);
    EXPECT_EQ(store->counters().file_bytes, 4 * kMiB);
    write_out(*store, 0, data.get());
    store->begin_read(0, back.get());
    EXPECT_NO_THROW(store->wait(0)) << fault;
    EXPECT_EQ(std::memcmp(data.get(), back.get(), 2 * kMiB), 0) << fault;
  }
}

TEST(SpillStore, ADiskThatFillsUpTellsHowMuchItTakes) {
  const Pages data = pages(kMiB);
  fill(data.get(), kMiB, 1);
  const auto store = make_spill_store({kMiB, kMiB, kMiB}, with_fault("full:2MiB"));
  EXPECT_NO_THROW(write_out(*store, 0, data.get()));
  EXPECT_NO_THROW(write_out(*store, 1, data.get()));
  const SpillLost lost = lost_by([&] { write_out(*store, 2, data.get()); });
  EXPECT_TRUE(lost.is_write);
  EXPECT_EQ(lost.room_bytes, 2 * kMiB);
  const auto from_third = make_spill_store({kMiB, kMiB}, with_fault("full:0@3"));
  EXPECT_NO_THROW(write_out(*from_third, 0, data.get()));
  EXPECT_NO_THROW(write_out(*from_third, 1, data.get()));
  EXPECT_EQ(lost_by([&] { write_out(*from_third, 0, data.get()); }).room_bytes, 0);
}

// A step that cannot be run again: its write goes on trying, and the bytes come back.
TEST(SpillStore, AWriteThatIsInsistedOnFindsAnotherPlaceOrTime) {
  const Pages data = pages(2 * kMiB);
  const Pages back = pages(2 * kMiB);
  fill(data.get(), 2 * kMiB, 7);
  const auto insist = [&](SpillOptions options) {
    options.mirror = true;
    const auto store = make_spill_store({kMiB, 2 * kMiB}, options);
    store->begin_write(1, data.get());
    store->insist(1);
    std::memset(back.get(), 0, 2 * kMiB);
    store->begin_read(1, back.get());
    store->wait(1);
    EXPECT_EQ(std::memcmp(data.get(), back.get(), 2 * kMiB), 0);
    return store->counters();
  };
  constexpr std::int64_t kFile = 2 * 3 * kMiB;
  EXPECT_EQ(insist(with_fault("fail-write:1")).file_bytes, kFile) << "the same place will do";
  SpillOptions bad = with_fault("full:0@1-9");
  EXPECT_EQ(insist(bad).file_bytes, kFile + 4 * kMiB) << "it has moved, and then there was room";
  bad = with_fault("full:0");
  bad.host_ram_bytes = 2 * kMiB + kMiB;
  EXPECT_EQ(insist(bad).ram_bytes, 3 * kMiB) << "the first slot lies there already";
  bad = with_fault("bad:3MiB");  // of the first copy
  bad.mirror = false;
  const auto store = make_spill_store({2 * kMiB, 2 * kMiB}, bad);
  store->begin_write(1, data.get());
  EXPECT_NO_THROW(store->insist(1));
  EXPECT_EQ(store->counters().file_bytes, 6 * kMiB);
}

TEST(SpillStore, PatienceEnds) {
  const Pages data = pages(kMiB);
  SpillOptions options = with_fault("full:0");
  options.patience_s = 1;  // long enough for a busy machine to try several times
  const auto store = make_spill_store({kMiB}, options);
  store->begin_write(0, data.get());
  EXPECT_TRUE(lost_by([&] { store->insist(0); }).is_write);
  EXPECT_GT(options.faults->writes, SpillTiers::kPlaces);
}

TEST(SpillStore, FaultsThatDoNotExistAreRefused) {
  EXPECT_EQ(parse_spill_faults(""), nullptr);
  for (const char* text :
       {"fire", "fail-read", "fail-read:", "fail-read:0", "fail-read:x", "full:9@0", "full:9@1-x", "bad:9@0"}) {
    EXPECT_THROW(parse_spill_faults(text), UserError) << text;
  }
}

TEST(SpillStore, SaysWhereAndWhenEachTransferRan) {
  const Pages data = pages(2 * kMiB);
  fill(data.get(), 2 * kMiB, 1);
  const auto store = make_spill_store({kMiB, 2 * kMiB}, {.host_ram_bytes = kMiB, .write_bytes_per_s = 100e6});
  EXPECT_EQ(store->counters().ram_bytes, kMiB);
  EXPECT_EQ(store->counters().file_bytes, 2 * kMiB);
  store->begin_write(0, data.get());
  store->begin_write(1, data.get());
  store->wait(0);
  store->wait(1);
  const auto times = store->times();
  EXPECT_TRUE(times[0].in_ram);
  EXPECT_FALSE(times[1].in_ram);
  EXPECT_LE(times[0].write.ended_ns, times[1].write.begun_ns) << "one channel, first in, first out";
  EXPECT_GE(times[1].write.ended_ns - times[1].write.begun_ns, 20'000'000) << "2 MiB at 100 MB/s";
  EXPECT_GT(times[1].write.stalled_ns, 10'000'000);
  EXPECT_EQ(times[1].read.ended_ns, 0);
}

// Memory that is registered takes the same way for the caller, whatever part of it is asked for.
TEST(SpillStore, RegisteredMemoryGivesTheSameBytes) {
  const Pages arena = pages(16 * kMiB);
  const std::span<std::byte> memory(arena.get(), 16 * kMiB);
  const auto store = make_spill_store({5 * kMiB + 123}, {.memory = memory});
  fill(arena.get() + kPage, 5 * kMiB + 123, 3);
  write_out(*store, 0, arena.get() + kPage);
  store->begin_read(0, arena.get() + 8 * kMiB);
  store->wait(0);
  EXPECT_EQ(std::memcmp(arena.get() + kPage, arena.get() + 8 * kMiB, 5 * kMiB + 123), 0);
}

TEST(SpillFile, GoesOnWhereMemoryMayNotBePinned) {
  const Pages arena = pages(64 * kMiB);
  const std::span<std::byte> memory(arena.get(), 64 * kMiB);
  EXPECT_TRUE(SpillFile("/tmp", kMiB).is_direct());
  // Address space that is not there cannot be pinned.
  const std::span<std::byte> nowhere(reinterpret_cast<std::byte*>(kPage), 64 * kMiB);
  SpillFile file("/tmp", kMiB, nowhere);
  EXPECT_FALSE(file.is_registered());
  fill(arena.get(), kMiB, 9);
  EXPECT_EQ(file.write(0, arena.get(), kMiB), "");
  EXPECT_EQ(file.read(0, arena.get() + kMiB, kMiB), "");
  EXPECT_EQ(std::memcmp(arena.get(), arena.get() + kMiB, kMiB), 0);
}

TEST(SpillStore, EveryBitCounts) {
  const Pages data = pages(kPage);
  fill(data.get(), kPage, 1);
  const std::uint64_t sum = checksum(data.get(), kPage);
  for (std::int64_t at = 0; at < kPage; at += 37) {
    for (int bit = 0; bit < 8; ++bit) {
      data.get()[at] ^= std::byte{1} << bit;
      EXPECT_NE(checksum(data.get(), kPage), sum) << at << " " << bit;
      data.get()[at] ^= std::byte{1} << bit;
    }
  }
  std::swap_ranges(data.get(), data.get() + 8, data.get() + 32);
  EXPECT_NE(checksum(data.get(), kPage), sum) << "words in another order";
}

TEST(SpillStore, ATestCanMakeItSlow) {
  const Pages data = pages(kMiB);
  const auto store = make_spill_store({kMiB}, {.write_bytes_per_s = 50e6});
  store->begin_write(0, data.get());
  store->wait(0);
  EXPECT_GE(store->counters().write_ms, 20);
}

TEST(SpillFile, ReportsBytesThatAreNotThere) {
  SpillFile file("/tmp", 4096);
  const Pages data = pages(8192);
  EXPECT_EQ(file.write(0, data.get(), 4096), "");
  EXPECT_NE(file.read(kMiB, data.get(), 4096), "");
}

}  // namespace
}  // namespace neap

#include "pool/spill_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>

#include "core/bytes.h"
#include "neap/error.h"
#include "pool/spill_file.h"

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

void there_and_back(const SpillOptions& options, std::int64_t shift) {
  const auto store = make_spill_store(kSlots, options);
  std::vector<Pages> out;
  std::vector<Pages> back;
  for (std::uint32_t i = 0; i < kSlots.size(); ++i) {
    out.push_back(pages(kSlots[i] + shift));
    back.push_back(pages(kSlots[i] + shift));
    fill(out[i].get() + shift, kSlots[i], i + 1);
    store->begin_write(i, out[i].get() + shift);
  }
  for (std::uint32_t i = 0; i < kSlots.size(); ++i) store->wait(i);
  for (std::uint32_t i = 0; i < kSlots.size(); ++i) store->begin_read(i, back[i].get() + shift);
  for (std::uint32_t i = 0; i < kSlots.size(); ++i) {
    store->wait(i);
    EXPECT_EQ(std::memcmp(out[i].get() + shift, back[i].get() + shift, static_cast<std::size_t>(kSlots[i])), 0) << i;
  }
  const SpillCounters c = store->counters();
  EXPECT_EQ(c.written_bytes, c.read_bytes);
  EXPECT_EQ(c.written_bytes, 8 * kMiB + 123 + 17 + 4096);
}

TEST(SpillStore, BytesComeBackFromDisk) { there_and_back({}, 0); }
TEST(SpillStore, BytesComeBackFromMemoryThatNoPageBegins) { there_and_back({}, 64); }
TEST(SpillStore, BytesComeBackFromRam) { there_and_back({.host_ram_bytes = 64 * kMiB}, 0); }
TEST(SpillStore, BytesComeBackFromBothTiers) { there_and_back({.host_ram_bytes = 6 * kMiB}, 0); }
TEST(SpillStore, AFileSystemInMemoryWillDo) {
  if (std::filesystem::is_directory("/dev/shm")) there_and_back({.folder = "/dev/shm"}, 0);
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

TEST(SpillStore, AFailedWriteStopsAndALostReadSaysSo) {
  const Pages data = pages(kMiB);
  fill(data.get(), kMiB, 1);
  const auto bad_disk = make_spill_store({kMiB}, {.fail_write = 1});
  bad_disk->begin_write(0, data.get());
  EXPECT_THROW(bad_disk->wait(0), DeviceError);

  for (const SpillOptions& options : {SpillOptions{.fail_read = 1}, SpillOptions{.corrupt_read = 1}}) {
    const auto store = make_spill_store({kMiB}, options);
    store->begin_write(0, data.get());
    store->wait(0);
    store->begin_read(0, data.get());
    EXPECT_THROW(store->wait(0), SpillLost);
    store->drain();
    store->begin_read(0, data.get());
    EXPECT_NO_THROW(store->wait(0)) << "the next time it works";
  }
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

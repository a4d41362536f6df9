#include <fmt/format.h>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/bytes.h"
#include "device/cpu/isa.h"
#include "device/device.h"
#include "neap/error.h"

namespace neap {
namespace {

class CpuStream final : public Stream {};

constexpr std::int64_t kHugePage = 2 * kMiB;

// Address space with a margin: the arena begins at a huge page, and behind its last page nothing can be touched.
class CpuArena final : public Arena {
 public:
  CpuArena(std::int64_t capacity, bool guard) : capacity_(capacity), page_(sysconf(_SC_PAGESIZE)) {
    const std::int64_t body = whole_pages(std::max<std::int64_t>(capacity, 1));
    mapped_ = body + kHugePage + (guard ? page_ : 0);
    void* at =
        mmap(nullptr, static_cast<std::size_t>(mapped_), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
      throw DeviceError(fmt::format("mmap of {} failed: {}", human_bytes(mapped_), std::strerror(errno)));
    }
    start_ = static_cast<std::byte*>(at);
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    base_ = start_ + (align_up(static_cast<std::int64_t>(address), kHugePage) - static_cast<std::int64_t>(address));
    try {
      protect(0, body, PROT_READ | PROT_WRITE);
    } catch (...) {
      munmap(start_, static_cast<std::size_t>(mapped_));
      throw;
    }
    open_ = body;
    bytes_ = capacity;
    madvise(base_, static_cast<std::size_t>(body), MADV_HUGEPAGE);
  }
  ~CpuArena() override { munmap(start_, static_cast<std::size_t>(mapped_)); }
  CpuArena(const CpuArena&) = delete;
  CpuArena& operator=(const CpuArena&) = delete;

  std::byte* base() override { return base_; }
  std::int64_t bytes() const override { return bytes_; }
  std::int64_t capacity() const override { return capacity_; }

  void resize(std::int64_t bytes) override {
    require(bytes >= 0 && bytes <= capacity_, "an arena stays within its capacity");
    const std::int64_t open = whole_pages(bytes);
    if (open > open_) protect(open_, open, PROT_READ | PROT_WRITE);
    if (open < open_) {
      madvise(base_ + open, static_cast<std::size_t>(open_ - open), MADV_DONTNEED);
      protect(open, open_, PROT_NONE);
    }
    open_ = open;
    bytes_ = bytes;
  }

  std::int64_t resident_bytes() const override {
    const std::int64_t pages = whole_pages(capacity_) / page_;
    std::vector<unsigned char> in_core(static_cast<std::size_t>(pages));
    if (mincore(base_, static_cast<std::size_t>(pages * page_), in_core.data()) != 0) return 0;
    return page_ * std::count_if(in_core.begin(), in_core.end(), [](unsigned char c) { return (c & 1U) != 0; });
  }

 private:
  std::int64_t whole_pages(std::int64_t bytes) const { return align_up(bytes, page_); }

  void protect(std::int64_t from, std::int64_t to, int how) {
    if (mprotect(base_ + from, static_cast<std::size_t>(to - from), how) == 0) return;
    throw DeviceError(fmt::format("mprotect of {} failed: {}", human_bytes(to - from), std::strerror(errno)));
  }

  std::int64_t capacity_;
  std::int64_t page_;
  std::int64_t bytes_ = 0;
  std::int64_t open_ = 0;  // whole pages that may be touched
  std::int64_t mapped_ = 0;
  std::byte* start_ = nullptr;
  std::byte* base_ = nullptr;
};

// Pages of the application's are not ours to give back.
class BorrowedArena final : public Arena {
 public:
  explicit BorrowedArena(std::span<std::byte> memory) : memory_(memory), bytes_(capacity()) {}
  std::byte* base() override { return memory_.data(); }
  std::int64_t bytes() const override { return bytes_; }
  std::int64_t capacity() const override { return static_cast<std::int64_t>(memory_.size()); }
  void resize(std::int64_t bytes) override {
    require(bytes >= 0 && bytes <= capacity(), "an arena stays within its capacity");
    bytes_ = bytes;
  }
  std::int64_t resident_bytes() const override { return capacity(); }

 private:
  std::span<std::byte> memory_;
  std::int64_t bytes_;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads) {
    if (threads > 0) omp_set_num_threads(threads);
    omp_set_dynamic(0);
    start_threads();
  }
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string numerics() const override { return fmt::format("cpu {} threads={}", isa_name(), omp_get_max_threads()); }
  std::unique_ptr<Arena> make_arena(std::int64_t capacity, bool guard) override {
    return std::make_unique<CpuArena>(capacity, guard);
  }
  std::unique_ptr<Arena> arena_in(std::span<std::byte> memory) override {
    return std::make_unique<BorrowedArena>(aligned_part(memory));
  }
  Stream& stream() override { return stream_; }
  void write(std::byte* dst, const void* src, std::int64_t bytes) override {
    std::memcpy(dst, src, static_cast<std::size_t>(bytes));
  }
  void read(void* dst, const std::byte* src, std::int64_t bytes) override {
    std::memcpy(dst, src, static_cast<std::size_t>(bytes));
  }
  void synchronise() override {}

 private:
  // The first parallel region makes the threads and what they need: not in the middle of a step.
  static void start_threads() {
    int count = 0;
#pragma omp parallel reduction(+ : count)
    ++count;
    require(count > 0, "there are threads");
  }

  CpuStream stream_;
};

}  // namespace

std::span<std::byte> aligned_part(std::span<std::byte> memory) {
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory.data()));
  const auto skipped = static_cast<std::size_t>(align_up(address) - address);
  return memory.subspan(std::min(skipped, memory.size()));
}

std::string_view name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kNull: return "null";
    case DeviceKind::kCpu: return "cpu";
    case DeviceKind::kCuda: return "cuda";
  }
  return "?";
}

std::unique_ptr<Device> make_cpu_device(int threads) { return std::make_unique<CpuDevice>(threads); }

}  // namespace neap

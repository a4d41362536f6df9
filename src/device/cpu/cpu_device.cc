#include <fmt/format.h>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/bytes.h"
#include "device/cpu/isa.h"
#include "device/device.h"
#include "neap/error.h"

namespace neap {
namespace {

class CpuStream final : public Stream {};

constexpr std::int64_t kHugePage = 2 * kMiB;

// Address space with a margin: the arena ends exactly at a page that cannot be touched when it is guarded.
class CpuArena final : public Arena {
 public:
  CpuArena(std::int64_t bytes, bool guard) : bytes_(bytes) {
    const std::int64_t page = sysconf(_SC_PAGESIZE);
    const std::int64_t body = align_up(std::max<std::int64_t>(bytes, 1), page);
    mapped_ = body + kHugePage + (guard ? page : 0);
    void* at =
        mmap(nullptr, static_cast<std::size_t>(mapped_), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
      throw DeviceError(fmt::format("mmap of {} failed: {}", human_bytes(mapped_), std::strerror(errno)));
    }
    start_ = static_cast<std::byte*>(at);
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    base_ = start_ + (align_up(static_cast<std::int64_t>(address), kHugePage) - static_cast<std::int64_t>(address));
    if (mprotect(base_, static_cast<std::size_t>(body), PROT_READ | PROT_WRITE) != 0) {
      munmap(start_, static_cast<std::size_t>(mapped_));
      throw DeviceError(fmt::format("mprotect of {} failed: {}", human_bytes(body), std::strerror(errno)));
    }
    madvise(base_, static_cast<std::size_t>(body), MADV_HUGEPAGE);
  }
  ~CpuArena() override { munmap(start_, static_cast<std::size_t>(mapped_)); }
  CpuArena(const CpuArena&) = delete;
  CpuArena& operator=(const CpuArena&) = delete;

  std::byte* base() override { return base_; }
  std::int64_t bytes() const override { return bytes_; }

 private:
  std::int64_t bytes_;
  std::int64_t mapped_ = 0;
  std::byte* start_ = nullptr;
  std::byte* base_ = nullptr;
};

class BorrowedArena final : public Arena {
 public:
  explicit BorrowedArena(std::span<std::byte> memory) : memory_(memory) {}
  std::byte* base() override { return memory_.data(); }
  std::int64_t bytes() const override { return static_cast<std::int64_t>(memory_.size()); }

 private:
  std::span<std::byte> memory_;
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
  std::unique_ptr<Arena> make_arena(std::int64_t bytes, bool guard) override {
    return std::make_unique<CpuArena>(bytes, guard);
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

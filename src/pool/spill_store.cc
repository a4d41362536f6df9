#include "pool/spill_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>

#include "core/bytes.h"
#include "core/random.h"
#include "neap/error.h"
#include "pool/spill_file.h"

namespace neap {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

using Pages = std::unique_ptr<std::byte, void (*)(void*)>;

Pages make_pages(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(std::max(align_up(bytes, kPage), kPage));
  Pages out(static_cast<std::byte*>(std::aligned_alloc(static_cast<std::size_t>(kPage), size)), std::free);
  if (out == nullptr) throw std::bad_alloc();
  return out;
}

// Sums of words in four lanes, each multiplied on the way, so that order counts. About as fast as memory.
std::uint64_t checksum(const std::byte* data, std::int64_t bytes) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15ULL;
  std::uint64_t lane[4] = {1, 2, 3, 4};
  std::int64_t at = 0;
  for (; at + 32 <= bytes; at += 32) {
    for (int i = 0; i < 4; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, data + at + 8 * i, sizeof word);
      lane[i] = (lane[i] ^ word) * kOdd;
      lane[i] ^= lane[i] >> 32U;
    }
  }
  std::uint64_t out = static_cast<std::uint64_t>(bytes);
  for (const std::uint64_t l : lane) out = (out ^ l) * kOdd;
  for (; at < bytes; ++at) out = (out ^ static_cast<std::uint64_t>(data[at])) * kOdd;
  return out;
}

struct Slot {
  std::int64_t bytes = 0;
  bool in_ram = false;
  std::int64_t offset = 0;  // in its tier
  std::uint64_t sum = 0;
};

struct Job {
  std::uint32_t slot = 0;
  bool is_write = false;
  std::byte* data = nullptr;
};

class Store final : public SpillStore {
 public:
  Store(const std::vector<std::int64_t>& slots, const SpillOptions& options)
      : options_(options), bounce_(make_pages(kBounce)) {
    std::int64_t in_file = 0;
    for (const std::int64_t bytes : slots) {
      const std::int64_t room = align_up(bytes, kPage);
      Slot slot{.bytes = bytes, .in_ram = ram_bytes_ + room <= options.host_ram_bytes};
      std::int64_t& end = slot.in_ram ? ram_bytes_ : in_file;
      slot.offset = end;
      end += room;
      slots_.push_back(slot);
    }
    state_.resize(slots.size());
    if (ram_bytes_ > 0) ram_ = make_pages(ram_bytes_);
    if (in_file > 0) {
      std::error_code error;
      const std::string folder =
          options.folder.empty() ? std::filesystem::temp_directory_path(error).string() : options.folder;
      file_ = std::make_unique<SpillFile>(folder, in_file);
    }
    counters_.ram_bytes = ram_bytes_;
    thread_ = std::thread([this] { run(); });
  }

  ~Store() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void begin_write(std::uint32_t slot, const std::byte* src) override {
    begin({slot, true, const_cast<std::byte*>(src)});
  }
  void begin_read(std::uint32_t slot, std::byte* dst) override { begin({slot, false, dst}); }

  void wait(std::uint32_t slot) override {
    const auto start = Clock::now();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return state_[slot].is_done; });
    counters_.stalled_ms += ms_since(start);
    const State state = state_[slot];
    if (state.error.empty()) return;
    lock.unlock();
    if (state.is_write) throw DeviceError(state.error);
    throw SpillLost{state.error};
  }

  void drain() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return jobs_.empty() && !is_busy_; });
  }

  SpillCounters counters() const override {
    const std::lock_guard lock(mutex_);
    return counters_;
  }

 private:
  static constexpr std::int64_t kBounce = 4 * kMiB;

  struct State {
    bool is_done = true;
    bool is_write = false;
    std::string error;
  };

  void begin(Job job) {
    {
      const std::lock_guard lock(mutex_);
      state_[job.slot] = {.is_done = false, .is_write = job.is_write};
      jobs_.push_back(job);
    }
    changed_.notify_all();
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
      if (stop_) return;
      const Job job = jobs_.front();
      jobs_.pop_front();
      is_busy_ = true;
      lock.unlock();
      const auto start = Clock::now();
      std::string error = job.is_write ? write(job) : read(job);
      throttle(job, start);
      const double ms = ms_since(start);
      lock.lock();
      (job.is_write ? counters_.written_bytes : counters_.read_bytes) += slots_[job.slot].bytes;
      (job.is_write ? counters_.write_ms : counters_.read_ms) += ms;
      state_[job.slot].error = std::move(error);
      state_[job.slot].is_done = true;
      is_busy_ = false;
      changed_.notify_all();
    }
  }

  void throttle(const Job& job, Clock::time_point start) const {
    const double rate = job.is_write ? options_.write_bytes_per_s : options_.read_bytes_per_s;
    if (rate <= 0 || slots_[job.slot].in_ram) return;
    const std::chrono::duration<double> least(static_cast<double>(slots_[job.slot].bytes) / rate);
    std::this_thread::sleep_until(start + std::chrono::duration_cast<Clock::duration>(least));
  }

  std::string write(const Job& job) {
    Slot& slot = slots_[job.slot];
    slot.sum = checksum(job.data, slot.bytes);
    if (++writes_ == options_.fail_write) return "a spill could not be written: injected";
    if (slot.in_ram) {
      std::memcpy(ram_.get() + slot.offset, job.data, static_cast<std::size_t>(slot.bytes));
      return {};
    }
    const std::string error = through_file(job, slot);
    return error.empty() ? error : fmt::format("a spill could not be written: {}", error);
  }

  std::string read(const Job& job) {
    const Slot& slot = slots_[job.slot];
    std::string error;
    for (int attempt = 0; attempt < 3; ++attempt) {
      if (++reads_ == options_.fail_read) return "spilled bytes could not be read: injected";
      error.clear();
      if (slot.in_ram) {
        std::memcpy(job.data, ram_.get() + slot.offset, static_cast<std::size_t>(slot.bytes));
      } else {
        error = through_file(job, slot);
      }
      if (reads_ == options_.corrupt_read) return "spilled bytes came back changed: injected";
      if (error.empty() && checksum(job.data, slot.bytes) == slot.sum) return {};
    }
    return error.empty() ? "spilled bytes came back changed"
                         : fmt::format("spilled bytes could not be read: {}", error);
  }

  // Whole pages from or to memory that begins at a page go straight through; the rest over a buffer.
  std::string through_file(const Job& job, const Slot& slot) {
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(job.data) % static_cast<std::uintptr_t>(kPage) == 0;
    const std::int64_t whole = is_aligned ? slot.bytes / kPage * kPage : 0;
    if (whole > 0) {
      std::string error =
          job.is_write ? file_->write(slot.offset, job.data, whole) : file_->read(slot.offset, job.data, whole);
      if (!error.empty()) return error;
    }
    for (std::int64_t at = whole; at < slot.bytes; at += kBounce) {
      const std::int64_t bytes = std::min(kBounce, slot.bytes - at);
      const auto size = static_cast<std::size_t>(bytes);
      if (job.is_write) std::memcpy(bounce_.get(), job.data + at, size);
      std::string error = job.is_write ? file_->write(slot.offset + at, bounce_.get(), align_up(bytes, kPage))
                                       : file_->read(slot.offset + at, bounce_.get(), align_up(bytes, kPage));
      if (!error.empty()) return error;
      if (!job.is_write) std::memcpy(job.data + at, bounce_.get(), size);
    }
    return {};
  }

  SpillOptions options_;
  std::vector<Slot> slots_;
  std::int64_t ram_bytes_ = 0;
  Pages ram_{nullptr, std::free};
  Pages bounce_;
  std::unique_ptr<SpillFile> file_;
  std::int64_t writes_ = 0;
  std::int64_t reads_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::vector<State> state_;
  SpillCounters counters_;
  bool is_busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<SpillStore> make_spill_store(const std::vector<std::int64_t>& slots, const SpillOptions& options) {
  return std::make_unique<Store>(slots, options);
}

}  // namespace neap

#include "pool/spill_store.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "neap/error.h"
#include "pool/spill_tiers.h"

namespace neap {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t ns_of(Clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

struct Job {
  std::uint32_t slot = 0;
  bool is_write = false;
  std::byte* data = nullptr;
  int attempt = 0;  // of a write: how often it has failed
};

class Store final : public SpillStore {
 public:
  Store(const std::vector<std::int64_t>& slots, const SpillOptions& options)
      : options_(options), tiers_(slots, options) {
    start(slots.size());
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
    std::unique_lock lock(mutex_);
    std::int64_t stalled = 0;
    if (!state_[slot].is_done) {
      const auto start = Clock::now();
      changed_.wait(lock, [&] { return state_[slot].is_done; });
      stalled = ns_of(Clock::now()) - ns_of(start);
      counters_.stalled_ms += static_cast<double>(stalled) * 1e-6;
    }
    const State& state = state_[slot];
    time_of(slot, state.is_write).stalled_ns = stalled;
    if (state.error.empty()) return;
    throw SpillLost{.what = state.error, .is_write = state.is_write, .room_bytes = tiers_.room_bytes()};
  }

  void insist(std::uint32_t slot) override {
    const auto start = Clock::now();
    for (int attempt = 1;; ++attempt) {
      try {
        return wait(slot);
      } catch (const SpillLost& lost) {
        const auto pause = pause_before(attempt);
        const std::chrono::duration<double> waited = Clock::now() + pause - start;
        if (!lost.is_write || waited.count() > options_.patience_s) throw;
        std::this_thread::sleep_for(pause);
        begin({slot, true, state_[slot].data, attempt});
      }
    }
  }

  void drain() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return jobs_.empty() && !is_busy_; });
  }

  bool serve(const std::vector<std::int64_t>& slots, const SpillOptions& options) override {
    drain();
    const std::lock_guard lock(mutex_);
    options_ = options;
    try {
      tiers_ = SpillTiers(slots, options, std::move(tiers_).places());
    } catch (const UserError&) {
      return false;
    }
    start(slots.size());
    return true;
  }

  SpillCounters counters() const override {
    const std::lock_guard lock(mutex_);
    return counters_;
  }

  std::span<const SlotTimes> times() const override { return times_; }

 private:
  struct State {
    bool is_done = true;
    bool is_write = false;
    std::byte* data = nullptr;
    std::string error;
  };

  void start(std::size_t slots) {
    state_.assign(slots, {});
    times_.assign(slots, {});
    for (std::uint32_t i = 0; i < slots; ++i) times_[i].in_ram = tiers_.in_ram(i);
    counters_.ram_bytes = tiers_.ram_bytes();
    counters_.file_bytes = tiers_.file_bytes();
  }

  // Every place is tried once without one.
  static std::chrono::milliseconds pause_before(int attempt) {
    constexpr int kPlaces = SpillTiers::kPlaces;
    return std::chrono::milliseconds(attempt <= kPlaces ? 0 : std::min(10 << std::min(attempt - kPlaces, 8), 2000));
  }

  TransferTime& time_of(std::uint32_t slot, bool is_write) { return is_write ? times_[slot].write : times_[slot].read; }

  void begin(Job job) {
    {
      const std::lock_guard lock(mutex_);
      state_[job.slot] = {.is_done = false, .is_write = job.is_write, .data = job.data};
      time_of(job.slot, job.is_write) = {.asked_ns = ns_of(Clock::now())};
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
      std::string error =
          job.is_write ? tiers_.write(job.slot, job.data, job.attempt) : tiers_.read(job.slot, job.data);
      throttle(job, start);
      const auto end = Clock::now();
      lock.lock();
      note(job, start, end);
      state_[job.slot].error = std::move(error);
      state_[job.slot].is_done = true;
      is_busy_ = false;
      changed_.notify_all();
    }
  }

  void note(const Job& job, Clock::time_point start, Clock::time_point end) {
    TransferTime& time = time_of(job.slot, job.is_write);
    time.begun_ns = ns_of(start);
    time.ended_ns = ns_of(end);
    times_[job.slot].in_ram = tiers_.in_ram(job.slot);
    counters_.ram_bytes = tiers_.ram_bytes();
    counters_.file_bytes = tiers_.file_bytes();
    (job.is_write ? counters_.written_bytes : counters_.read_bytes) += tiers_.bytes(job.slot);
    (job.is_write ? counters_.write_ms : counters_.read_ms) +=
        std::chrono::duration<double, std::milli>(end - start).count();
  }

  void throttle(const Job& job, Clock::time_point start) const {
    if (tiers_.in_ram(job.slot)) return;
    const double rate = job.is_write ? options_.write_bytes_per_s : options_.read_bytes_per_s;
    std::chrono::duration<double> least(rate > 0 ? static_cast<double>(tiers_.bytes(job.slot)) / rate : 0);
    const SpillFaults* faults = options_.faults.get();
    if (faults != nullptr && faults->slow_from > 0 && faults->writes + faults->reads >= faults->slow_from) {
      least = std::max<std::chrono::duration<double>>(least, Clock::now() - start) * 10;
    }
    std::this_thread::sleep_until(start + std::chrono::duration_cast<Clock::duration>(least));
  }

  SpillOptions options_;
  SpillTiers tiers_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::vector<State> state_;
  std::vector<SlotTimes> times_;
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

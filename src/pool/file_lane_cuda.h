// The way of a GPU's tensors to disk and back: over two pinned buffers, moved by a thread of its own.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "device/cuda/cuda.h"
#include "device/cuda/pinned.h"
#include "pool/spill_store.h"

namespace neap {

class FileLane {
 public:
  struct Job {
    std::uint32_t slot = 0;
    bool is_write = false;
    std::byte* data = nullptr;    // on the device
    cudaEvent_t fork = nullptr;   // before it nothing may be copied
    cudaEvent_t done = nullptr;   // recorded on the copy stream behind the copy
    cudaEvent_t begun = nullptr;  // the same, before it
  };

  // `slots` are the lane's own, numbered from 0; all of them go to the file.
  FileLane(const std::vector<std::int64_t>& slots, const SpillOptions& options);
  ~FileLane();
  FileLane(const FileLane&) = delete;
  FileLane& operator=(const FileLane&) = delete;

  void begin(const Job& job);
  // Until the slot's copy is on the copy stream and its `done` recorded. SpillLost when any transfer has failed: then
  // nothing moves until drain().
  void wait(std::uint32_t slot);
  void drain();
  SpillCounters counters() const;
  std::span<const SlotTimes> times() const { return store_->times(); }

 private:
  struct Half {
    std::byte* data = nullptr;
    std::optional<std::uint32_t> writing;  // on its way to the file
    cudaEvent_t reading = nullptr;         // on its way to the device
  };

  void run();
  void move(const Job& job);
  void write(const Job& job);
  void read(const Job& job);
  Half& next_half();
  void settle(Half& half);
  void copy(const Job& job, std::byte* half, cudaMemcpyKind kind);
  void is_issued(std::uint32_t slot);

  std::vector<std::int64_t> slots_;
  PinnedMemory staging_;
  bool is_last_chance_;                // steps cannot be run again
  std::unique_ptr<SpillStore> store_;  // the thread's alone, but for its counters
  Half halves_[2];
  std::size_t turn_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::vector<bool> is_issued_;
  std::optional<SpillLost> lost_;
  std::string broken_;  // CUDA's own trouble
  double stalled_ms_ = 0;
  bool is_busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace neap

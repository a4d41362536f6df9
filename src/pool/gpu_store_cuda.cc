// Spilling from the GPU. Each slot that fits into the RAM that is given has its place in pinned memory: its transfers
// are copies on the copy stream, ordered against the calls by events alone, so that a whole step can be captured. The
// other slots take the lane to disk.
#include <algorithm>
#include <memory>
#include <optional>

#include "core/bytes.h"
#include "core/clock.h"
#include "device/cuda/cuda.h"
#include "device/cuda/pinned.h"
#include "neap/error.h"
#include "pool/file_lane_cuda.h"
#include "pool/spill_store.h"

namespace neap {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

class Event {
 public:
  explicit Event(unsigned flags) { NEAP_CHECK_CUDA(cudaEventCreateWithFlags(&handle_, flags)); }
  ~Event() { cudaEventDestroy(handle_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

// Those of one slot, one way. Events that order work cannot be asked for the time once they were captured.
struct Events {
  Event fork{cudaEventDisableTiming};  // on the compute stream: the transfer may begin
  Event done{cudaEventDisableTiming};  // on the copy stream: it is over
  Event begun{cudaEventDefault};
  Event ended{cudaEventDefault};
  Event arrived{cudaEventDefault};  // on the compute stream: it is waited for from here on
  bool has_arrived = false;
};

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  NEAP_CHECK_CUDA(cudaStreamIsCapturing(stream, &status));
  return status == cudaStreamCaptureStatusActive;
}

void note_time(const Event& event, cudaStream_t stream) {
  const unsigned flags = is_captured(stream) ? cudaEventRecordExternal : cudaEventRecordDefault;
  NEAP_CHECK_CUDA(cudaEventRecordWithFlags(event.get(), stream, flags));
}

double ms_between(const Event& from, const Event& to) {
  float ms = 0;
  NEAP_CHECK_CUDA(cudaEventElapsedTime(&ms, from.get(), to.get()));
  return ms;
}

class GpuStore final : public SpillStore {
 public:
  GpuStore(const std::vector<std::int64_t>& slots, const SpillOptions& options)
      : compute_(CudaContext::get().compute()), copies_(CudaContext::get().copies()), times_(slots.size()) {
    std::int64_t ram = 0;
    std::vector<std::int64_t> on_disk;
    SpillOptions to_file = options;
    to_file.lives.clear();
    for (const std::int64_t bytes : slots) {
      Slot slot{.bytes = bytes};
      const std::int64_t room = align_up(bytes, kPage);
      if (ram + room <= options.host_ram_bytes) {
        slot.offset = ram;
        ram += room;
      } else {
        slot.lane = static_cast<std::uint32_t>(on_disk.size());
        on_disk.push_back(bytes);
        if (!options.lives.empty()) to_file.lives.push_back(options.lives[slots_.size()]);
      }
      for (auto& events : slot.events) events = std::make_unique<Events>();
      times_[slots_.size()].in_ram = slot.lane == kNone;
      slots_.push_back(std::move(slot));
    }
    if (!on_disk.empty()) lane_ = std::make_unique<FileLane>(on_disk, to_file);
    ram_.emplace(ram);
    counters_.ram_bytes = ram;
  }

  ~GpuStore() override { cudaDeviceSynchronize(); }
  GpuStore(const GpuStore&) = delete;
  GpuStore& operator=(const GpuStore&) = delete;

  void begin_write(std::uint32_t slot, const std::byte* src) override {
    begin({slot, true}, const_cast<std::byte*>(src));
  }
  void begin_read(std::uint32_t slot, std::byte* dst) override { begin({slot, false}, dst); }

  void wait(std::uint32_t slot) override {
    Slot& s = slots_[slot];
    Events& events = *s.events[s.is_write];
    if (s.lane != kNone) {
      lane_->wait(s.lane);
    } else {
      note_time(events.arrived, compute_);
      events.has_arrived = true;
    }
    NEAP_CHECK_CUDA(cudaStreamWaitEvent(compute_, events.done.get(), 0));
  }

  void drain() override {
    if (lane_) lane_->drain();
    NEAP_CHECK_CUDA(cudaStreamSynchronize(copies_));
    NEAP_CHECK_CUDA(cudaStreamSynchronize(compute_));
    pending_.clear();
  }

  SpillCounters counters() const override {
    read_times();
    SpillCounters out = counters_;
    if (!lane_) return out;
    const SpillCounters disk = lane_->counters();
    out.written_bytes += disk.written_bytes;
    out.read_bytes += disk.read_bytes;
    out.write_ms += disk.write_ms;
    out.read_ms += disk.read_ms;
    out.stalled_ms += disk.stalled_ms;
    out.file_bytes = disk.file_bytes;
    return out;
  }

  std::span<const SlotTimes> times() const override {
    for (std::size_t i = 0; lane_ && i < slots_.size(); ++i) {
      if (slots_[i].lane != kNone) times_[i] = lane_->times()[slots_[i].lane];
    }
    return times_;
  }

  bool is_on_stream() const override { return lane_ == nullptr; }
  void note_replay() override { pending_ = captured_; }

 private:
  struct Transfer {
    std::uint32_t slot = 0;
    bool is_write = false;
  };
  struct Slot {
    std::int64_t bytes = 0;
    std::int64_t offset = 0;     // in RAM
    std::uint32_t lane = kNone;  // its number there, of a slot on disk
    bool is_write = false;       // the last transfer
    std::unique_ptr<Events> events[2];
  };

  void begin(const Transfer& t, std::byte* data) {
    Slot& s = slots_[t.slot];
    s.is_write = t.is_write;
    const Events& e = *s.events[t.is_write];
    NEAP_CHECK_CUDA(cudaEventRecord(e.fork.get(), compute_));
    if (s.lane != kNone) {
      return lane_->begin({.slot = s.lane,
                           .is_write = t.is_write,
                           .data = data,
                           .fork = e.fork.get(),
                           .done = e.done.get(),
                           .begun = e.begun.get()});
    }
    NEAP_CHECK_CUDA(cudaStreamWaitEvent(copies_, e.fork.get(), 0));
    note_time(e.begun, copies_);
    std::byte* const place = ram_->data() + s.offset;
    NEAP_CHECK_CUDA(cudaMemcpyAsync(t.is_write ? place : data, t.is_write ? data : place,
                                    static_cast<std::size_t>(s.bytes),
                                    t.is_write ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, copies_));
    note_time(e.ended, copies_);
    NEAP_CHECK_CUDA(cudaEventRecord(e.done.get(), copies_));
    (is_captured(copies_) ? captured_ : pending_).push_back(t);
  }

  // Of the transfers since the last time, by events. The clocks of device and host are laid side by side here.
  void read_times() const {
    if (pending_.empty()) return;
    for (const Transfer& t : pending_) {
      const Events& e = *slots_[t.slot].events[t.is_write];
      NEAP_CHECK_CUDA(cudaEventSynchronize(e.ended.get()));
      if (e.has_arrived) NEAP_CHECK_CUDA(cudaEventSynchronize(e.arrived.get()));
    }
    NEAP_CHECK_CUDA(cudaEventRecord(now_.get(), copies_));
    NEAP_CHECK_CUDA(cudaEventSynchronize(now_.get()));
    const std::int64_t now_ns = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
    for (const Transfer& t : pending_) read_time(t, now_ns);
    pending_.clear();
  }

  void read_time(const Transfer& t, std::int64_t now_ns) const {
    const Slot& s = slots_[t.slot];
    const Events& e = *s.events[t.is_write];
    const double begun = ms_between(e.begun, now_);  // ago
    const double ended = ms_between(e.ended, now_);
    const double arrived = e.has_arrived ? ms_between(e.arrived, now_) : ended;
    const double stalled = std::max(0.0, arrived - ended);
    const auto at = [&](double ago) { return now_ns - static_cast<std::int64_t>(ago * 1e6); };
    (t.is_write ? times_[t.slot].write : times_[t.slot].read) = {
        .asked_ns = at(begun),
        .begun_ns = at(begun),
        .ended_ns = at(ended),
        .stalled_ns = static_cast<std::int64_t>(stalled * 1e6)};
    (t.is_write ? counters_.written_bytes : counters_.read_bytes) += s.bytes;
    (t.is_write ? counters_.write_ms : counters_.read_ms) += begun - ended;
    counters_.stalled_ms += stalled;
  }

  cudaStream_t compute_;
  cudaStream_t copies_;
  std::vector<Slot> slots_;
  std::optional<PinnedMemory> ram_;
  std::vector<Transfer> captured_;
  Event now_{cudaEventDefault};
  mutable std::vector<Transfer> pending_;  // whose times were not read yet
  mutable std::vector<SlotTimes> times_;
  mutable SpillCounters counters_;
  std::unique_ptr<FileLane> lane_;  // ends first
};

}  // namespace

std::unique_ptr<SpillStore> make_cuda_spill_store(const std::vector<std::int64_t>& slots, const SpillOptions& options) {
  return std::make_unique<GpuStore>(slots, options);
}

}  // namespace neap

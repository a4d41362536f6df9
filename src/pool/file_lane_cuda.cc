#include "pool/file_lane_cuda.h"

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "core/clock.h"
#include "neap/error.h"

namespace neap {
namespace {

std::int64_t half_bytes(const std::vector<std::int64_t>& slots) {
  return align_up(*std::max_element(slots.begin(), slots.end()), kPage);
}

}  // namespace

FileLane::FileLane(const std::vector<std::int64_t>& slots, const SpillOptions& options)
    : slots_(slots), staging_(2 * half_bytes(slots)), is_last_chance_(options.mirror), is_issued_(slots.size()) {
  SpillOptions to_file = options;
  to_file.host_ram_bytes = 0;
  to_file.memory = {staging_.data(), static_cast<std::size_t>(2 * half_bytes(slots))};
  store_ = spill_store_maker()(slots_, to_file);
  for (std::size_t i = 0; i < 2; ++i) {
    halves_[i].data = staging_.data() + static_cast<std::int64_t>(i) * half_bytes(slots);
  }
  thread_ = std::thread([this] { run(); });
}

FileLane::~FileLane() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  cudaStreamSynchronize(CudaContext::get().copies());
}

void FileLane::begin(const Job& job) {
  {
    const std::lock_guard lock(mutex_);
    is_issued_[job.slot] = false;
    jobs_.push_back(job);
  }
  changed_.notify_all();
}

void FileLane::wait(std::uint32_t slot) {
  std::unique_lock lock(mutex_);
  const auto start = Clock::now();
  changed_.wait(lock, [&] { return is_issued_[slot] || lost_ || !broken_.empty(); });
  stalled_ms_ += ms_since(start);
  if (!broken_.empty()) throw DeviceError(broken_);
  if (lost_) throw *lost_;
}

void FileLane::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty() && !is_busy_; });
  lost_.reset();
}

SpillCounters FileLane::counters() const {
  SpillCounters out = store_->counters();
  const std::lock_guard lock(mutex_);
  out.stalled_ms = stalled_ms_;  // that of the file itself holds up the lane's thread alone
  return out;
}

void FileLane::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (stop_) break;
    const Job job = jobs_.front();
    jobs_.pop_front();
    if (lost_ || !broken_.empty()) {
      changed_.notify_all();
      continue;
    }
    is_busy_ = true;
    lock.unlock();
    move(job);
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
  lock.unlock();
  store_->drain();
}

void FileLane::move(const Job& job) {
  try {
    if (job.is_write) {
      write(job);
    } else {
      read(job);
    }
  } catch (const SpillLost& lost) {
    const std::lock_guard lock(mutex_);
    lost_ = lost;
  } catch (const std::exception& e) {
    const std::lock_guard lock(mutex_);
    broken_ = e.what();
  }
}

void FileLane::is_issued(std::uint32_t slot) {
  {
    const std::lock_guard lock(mutex_);
    is_issued_[slot] = true;
  }
  changed_.notify_all();
}

void FileLane::settle(Half& half) {
  if (half.reading != nullptr) NEAP_CHECK_CUDA(cudaEventSynchronize(std::exchange(half.reading, nullptr)));
  if (!half.writing) return;
  const std::uint32_t slot = *std::exchange(half.writing, std::nullopt);
  is_last_chance_ ? store_->insist(slot) : store_->wait(slot);
}

FileLane::Half& FileLane::next_half() {
  turn_ = 1 - turn_;
  settle(halves_[turn_]);
  return halves_[turn_];
}

void FileLane::copy(const Job& job, std::byte* half, cudaMemcpyKind kind) {
  const cudaStream_t copies = CudaContext::get().copies();
  const bool is_out = kind == cudaMemcpyDeviceToHost;
  NEAP_CHECK_CUDA(cudaStreamWaitEvent(copies, job.fork, 0));
  NEAP_CHECK_CUDA(cudaEventRecord(job.begun, copies));
  NEAP_CHECK_CUDA(cudaMemcpyAsync(is_out ? half : job.data, is_out ? job.data : half,
                                  static_cast<std::size_t>(slots_[job.slot]), kind, copies));
  NEAP_CHECK_CUDA(cudaEventRecord(job.done, copies));
}

void FileLane::write(const Job& job) {
  Half& half = next_half();
  copy(job, half.data, cudaMemcpyDeviceToHost);
  is_issued(job.slot);
  NEAP_CHECK_CUDA(cudaEventSynchronize(job.done));
  store_->begin_write(job.slot, half.data);
  half.writing = job.slot;
}

// What is still on its way to the file gets there first.
void FileLane::read(const Job& job) {
  for (Half& half : halves_) {
    if (half.writing == job.slot) settle(half);
  }
  Half& half = next_half();
  store_->begin_read(job.slot, half.data);
  store_->wait(job.slot);
  copy(job, half.data, cudaMemcpyHostToDevice);
  half.reading = job.done;
  is_issued(job.slot);
}

}  // namespace neap

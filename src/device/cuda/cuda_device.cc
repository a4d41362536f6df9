#include <cudnn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/bytes.h"
#include "device/cuda/cublas.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_arena.h"
#include "device/cuda/cupti.h"
#include "neap/error.h"

namespace neap {
namespace {

// Pinned host memory through which the host's bytes pass: two halves, one being filled while the other travels.
class Staging {
 public:
  Staging() {
    NEAP_CHECK_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&memory_), 2 * kHalf, cudaHostAllocDefault));
    for (cudaEvent_t& event : free_) NEAP_CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  ~Staging() {
    for (const cudaEvent_t event : free_) cudaEventDestroy(event);
    cudaFreeHost(memory_);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void write(std::byte* dst, const std::byte* src, std::size_t bytes, cudaStream_t stream) {
    for (std::size_t at = 0; at < bytes; at += kHalf) {
      const std::size_t count = std::min(kHalf, bytes - at);
      std::byte* half = next(stream);
      std::memcpy(half, src + at, count);
      NEAP_CHECK_CUDA(cudaMemcpyAsync(dst + at, half, count, cudaMemcpyHostToDevice, stream));
      NEAP_CHECK_CUDA(cudaEventRecord(free_[turn_], stream));
    }
  }

  void read(std::byte* dst, const std::byte* src, std::size_t bytes, cudaStream_t stream) {
    for (std::size_t at = 0; at < bytes; at += kHalf) {
      const std::size_t count = std::min(kHalf, bytes - at);
      std::byte* half = next(stream);
      NEAP_CHECK_CUDA(cudaMemcpyAsync(half, src + at, count, cudaMemcpyDeviceToHost, stream));
      NEAP_CHECK_CUDA(cudaStreamSynchronize(stream));
      std::memcpy(dst + at, half, count);
    }
  }

 private:
  static constexpr std::size_t kHalf = 4 * static_cast<std::size_t>(kMiB);

  std::byte* next(cudaStream_t /*stream*/) {
    turn_ = 1 - turn_;
    NEAP_CHECK_CUDA(cudaEventSynchronize(free_[turn_]));
    return memory_ + static_cast<std::size_t>(turn_) * kHalf;
  }

  std::byte* memory_ = nullptr;
  cudaEvent_t free_[2] = {};
  int turn_ = 0;
};

// Marks are events on the compute stream: nothing waits until they are read.
class CudaTimer final : public Timer {
 public:
  explicit CudaTimer(cudaStream_t stream) : stream_(stream) {}
  ~CudaTimer() override {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  CudaTimer(const CudaTimer&) = delete;
  CudaTimer& operator=(const CudaTimer&) = delete;

  void mark() override {
    if (used_ == events_.size()) {
      events_.push_back(nullptr);
      NEAP_CHECK_CUDA(cudaEventCreate(&events_.back()));
    }
    NEAP_CHECK_CUDA(cudaEventRecord(events_[used_++], stream_));
  }

  void read(std::vector<double>& ms) override {
    ms.clear();
    if (used_ == 0) return;
    NEAP_CHECK_CUDA(cudaEventSynchronize(events_[used_ - 1]));
    for (std::size_t i = 1; i < used_; ++i) {
      float between = 0;
      NEAP_CHECK_CUDA(cudaEventElapsedTime(&between, events_[i - 1], events_[i]));
      ms.push_back(between);
    }
    used_ = 0;
  }

 private:
  cudaStream_t stream_;
  std::vector<cudaEvent_t> events_;
  std::size_t used_ = 0;
};

// A CUDA graph: one launch for a whole step.
class CudaReplay final : public Replay {
 public:
  CudaReplay(cudaGraphExec_t graph, cudaStream_t stream) : graph_(graph), stream_(stream) {}
  ~CudaReplay() override { cudaGraphExecDestroy(graph_); }
  CudaReplay(const CudaReplay&) = delete;
  CudaReplay& operator=(const CudaReplay&) = delete;
  void run() override { NEAP_CHECK_CUDA(cudaGraphLaunch(graph_, stream_)); }

 private:
  cudaGraphExec_t graph_;
  cudaStream_t stream_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice() : context_(CudaContext::get()), stream_(context_.compute()) {}
  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string numerics() const override {
    return fmt::format("cuda {} cublasLt={} cudnn={}", context_.name(), cublas_lt().version(), cudnnGetVersion());
  }
  // What is not mapped faults by itself.
  std::unique_ptr<Arena> make_arena(std::int64_t capacity, bool /*guard*/) override {
    return std::make_unique<CudaArena>(capacity);
  }
  std::unique_ptr<Arena> arena_in(std::span<std::byte> /*memory*/) override {
    throw UserError("--device cuda cannot train inside a reservation of host memory; give a budget instead");
  }
  Stream& stream() override { return stream_; }
  void write(std::byte* dst, const void* src, std::int64_t bytes) override {
    staging_.write(dst, static_cast<const std::byte*>(src), static_cast<std::size_t>(bytes), stream_.handle());
  }
  void read(void* dst, const std::byte* src, std::int64_t bytes) override {
    staging_.read(static_cast<std::byte*>(dst), src, static_cast<std::size_t>(bytes), stream_.handle());
    context_.throw_fault();
  }
  void synchronise() override {
    NEAP_CHECK_CUDA(cudaStreamSynchronize(stream_.handle()));
    context_.throw_fault();
  }
  std::unique_ptr<Timer> make_timer() override { return std::make_unique<CudaTimer>(stream_.handle()); }
  std::unique_ptr<Replay> capture(const std::function<void()>& launch) override {
    const cudaStream_t stream = stream_.handle();
    NEAP_CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    cudaGraph_t graph = nullptr;
    try {
      launch();
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    NEAP_CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t made = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&made, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(status, "cudaGraphInstantiate");
    return std::make_unique<CudaReplay>(made, stream);
  }
  ActivityLog* activities(std::string& why) override { return cupti_log(why); }
  std::int64_t context_bytes() const override { return context_.fixed_bytes(); }

 private:
  CudaContext& context_;
  CudaStream stream_;
  Staging staging_;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device() { return std::make_unique<CudaDevice>(); }

}  // namespace neap

// What all CUDA code shares: checked calls, the process's one context, streams.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "device/device.h"

struct cublasLtContext;
struct cudnnContext;

namespace neap {

// DeviceError names the call and what CUDA says of it.
void check_cuda(cudaError_t status, const char* call);
// After a launch; `kernel` is named when it failed.
void check_launch(const char* kernel);

class CudaStream final : public Stream {
 public:
  explicit CudaStream(cudaStream_t handle) : handle_(handle) {}
  cudaStream_t handle() const { return handle_; }

 private:
  cudaStream_t handle_;
};

inline cudaStream_t handle_of(Stream& stream) { return static_cast<CudaStream&>(stream).handle(); }

// An index out of range that a kernel met. Kernels cannot throw: the first one that meets one writes it here, goes on
// with index 0, and the host throws when it next waits for the device. In host memory that the device can write.
struct CudaFault {
  int is_set = 0;
  int op = 0;  // a place in kFaultOps
  std::int64_t index = 0;
  std::int64_t bound = 0;
};
inline constexpr std::string_view kFaultOps[] = {"embedding",  "gather",           "scatter",
                                                 "max_unpool", "reverse_sequence", "roi_align"};
// An op's place there; one that is not there does not compile.
consteval int fault_op(std::string_view name) {
  int at = 0;
  while (kFaultOps[at] != name) ++at;
  return at;
}

// The first GPU that CUDA shows, with what libraries need. Made on first use and kept until the program ends:
// DeviceError says in one line what is missing.
class CudaContext {
 public:
  static CudaContext& get();

  int multiprocessors() const { return multiprocessors_; }
  std::int64_t total_bytes() const { return total_bytes_; }
  const std::string& name() const { return name_; }  // of the card, with its compute capability
  cudaStream_t compute() const { return compute_; }
  cudaStream_t copies() const { return copies_; }
  cublasLtContext* cublas() const { return cublas_; }
  cudnnContext* cudnn();  // on the compute stream; made when first asked for
  CudaFault* fault() const { return fault_; }
  // UserError if a kernel has met a bad index since the last call. The device must have finished.
  void throw_fault();

  // Bytes of the card that this process has beside its arenas: context, code, libraries. What other processes took
  // since the start is in it too, and what they gave back is missing in it (at least 0).
  std::int64_t fixed_bytes() const;
  void count_arena(std::int64_t bytes) { arena_bytes_ += bytes; }

 private:
  CudaContext();
  void open();

  int device_ = 0;
  int multiprocessors_ = 0;
  std::int64_t total_bytes_ = 0;
  std::function<std::int64_t()> used_bytes_;  // on the card, by everybody; empty: the driver does not say
  std::int64_t used_before_ = 0;              // there was a context
  std::int64_t arena_bytes_ = 0;
  std::string name_;
  cudaStream_t compute_ = nullptr;
  cudaStream_t copies_ = nullptr;
  cublasLtContext* cublas_ = nullptr;
  cudnnContext* cudnn_ = nullptr;
  CudaFault* fault_ = nullptr;
};

}  // namespace neap

#define NEAP_CHECK_CUDA(call) ::neap::check_cuda((call), #call)
